"""The settings of what a pipeline follows, and checks of what cannot be followed together."""

import os

from twigcast.envelope import Envelope
from twigcast.errors import PipelineError
from twigcast.spark.lifecycle_settings import LifecycleSettings
from twigcast.spark.living import LivingPopulation
from twigcast.spark.window_settings import WindowSettings
from twigcast.subscription_files import says_when
from twigcast.subscriptions import SubscriptionSet

FollowedSettings = LifecycleSettings | WindowSettings


def windows_of(settings: FollowedSettings | None) -> WindowSettings | None:
    """Returns the settings of windows, if it is these that are followed."""
    return settings if isinstance(settings, WindowSettings) else None


def checked_settings(
    subscriptions: SubscriptionSet | LivingPopulation | str | os.PathLike[str],
    lifecycle: LifecycleSettings | None,
    windows: WindowSettings | None,
    envelope: Envelope | None,
) -> FollowedSettings | None:
    """Returns what a pipeline is to follow: also windows, if a file of subscriptions says when they are told.

    Raises:
        PipelineError: That is not possible together with the rest.
        UnknownKey: A window is for a subscription that is not in the set.
        SubscriptionFileError: The file of subscriptions cannot be read.
    """
    if lifecycle is not None and not isinstance(lifecycle, LifecycleSettings):
        raise TypeError(f"lifecycle must be LifecycleSettings, not {type(lifecycle).__name__}")
    if windows is not None and not isinstance(windows, WindowSettings):
        raise TypeError(f"windows must be WindowSettings, not {type(windows).__name__}")
    if lifecycle is not None and envelope is not None:
        raise PipelineError("an envelope cannot be used together with life cycles")
    if windows is None and isinstance(subscriptions, str | os.PathLike) and says_when(subscriptions):
        windows = WindowSettings()
    if windows is None:
        return lifecycle
    _check_windows(subscriptions, lifecycle, windows, envelope)
    return windows


def _check_windows(
    subscriptions: SubscriptionSet | LivingPopulation | str | os.PathLike[str],
    lifecycle: LifecycleSettings | None,
    windows: WindowSettings,
    envelope: Envelope | None,
) -> None:
    """Raises an error if windows are not possible together with the rest."""
    if lifecycle is not None:
        raise PipelineError(
            "windows cannot be used together with life cycles: run a pipeline for each, and leave `when` out of the "
            "subscriptions whose messages are followed"
        )
    if envelope is not None:
        raise PipelineError(
            "an envelope cannot be used together with windows: let the query make the element, behind return"
        )
    if isinstance(subscriptions, LivingPopulation):
        raise PipelineError(
            "a population that lives has no windows: give the subscriptions as a file or a set, which may change while "
            "a stream runs, too"
        )
    if isinstance(subscriptions, SubscriptionSet):
        for key in windows.when or {}:
            subscriptions[key]
