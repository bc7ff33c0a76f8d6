"""The settings of a broker: flags override the environment, which overrides a file, which overrides the defaults.

The settings are flat, so that each has one name everywhere: ``port`` in the file and in ``--set port=8081``,
``TWIGCAST_PORT`` in the environment. The reference page is generated from the descriptions here.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from twigcast.broker.delivery.addresses import UrlPolicy
from twigcast.broker.errors import BrokerError, UrlRefused
from twigcast.broker.model import Tenant
from twigcast.broker.store.sealing import read_keys
from twigcast.limits import MESSAGE_BYTES_CEILING, QUERY_NESTING_CEILING, Limits

ENVIRONMENT_PREFIX: Final = "TWIGCAST_"

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
_DAY = 86_400.0


class ConfigError(BrokerError):
    """A setting that cannot be used. The reason names the setting, where it was set, and what is wrong with it."""

    code = "config"


class TenantLimits(BaseModel):
    """The limits that can be set for each tenant; for all others the broker's settings of the same names hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    subscriptions_max: int = Field(default=1_000_000, ge=0, description="Subscriptions of one tenant.")
    sources_max: int = Field(default=1_000, ge=0, description="Registered sources of one tenant.")
    tables_max: int = Field(default=100, ge=0, description="Look-up tables of one tenant.")
    tokens_max: int = Field(default=1_000, ge=1, description="Tokens of one tenant.")
    streams_max: int = Field(
        default=10_000, ge=0, description="Streams (Server-Sent Events and WebSockets) that one tenant has open."
    )
    pending_max: int = Field(
        default=1_000_000,
        ge=1,
        description="Deliveries that wait for one subscriber; what happens beyond is the choice of each subscription.",
    )
    publish_rate_max: int = Field(
        default=0, ge=0, description="Messages that one tenant may publish in a second; 0 for no limit."
    )


class Settings(TenantLimits):
    """The settings of a broker."""

    store: str = Field(
        default="twigcast-data", description="The store: a folder for SQLite, or `postgresql://user@host/database`."
    )
    secrets_key: SecretStr | None = Field(
        default=None,
        description="The key that seals the secrets of webhooks in the store, as `twigcast admin key` prints it; set "
        "it in the environment. While keys change, several: the new one first, separated by commas.",
    )
    secrets_key_file: Path | None = Field(
        default=None,
        description="A file with such keys, one a line, the newest first. Without a key nothing is sealed.",
    )
    host: str = Field(
        default="127.0.0.1",
        description="Address on which the broker listens. Other machines reach it only if you change this.",
    )
    port: int = Field(
        default=8080, ge=0, le=65_535, description="Port on which the broker listens; 0 for any free one."
    )
    standby: bool = Field(
        default=False,
        description="Whether the broker waits while another one works on its store, on PostgreSQL, and takes over when "
        "that one ends. Set it for both of a pair.",
    )
    public_url: str | None = Field(
        default=None,
        description="The address under which clients reach the broker, such as `https://news.example.org`, "
        "for links in feeds and in WebSub; by default that of the request.",
    )
    trusted_hosts: tuple[str, ...] = Field(
        default=(),
        description="Host names that requests may give, such as `news.example.org`, separated by commas; `*`: any. "
        "By default `localhost`, any IP address, the names in `host` and `public_url`, and, where other machines reach "
        "the broker, the name of this one.",
    )
    cors_origins: tuple[str, ...] = Field(
        default=(),
        description="Origins of pages that may use the interface in a browser, such as `https://app.example.org`, "
        "separated by commas; `*`: any. They need a token, as everybody does.",
    )
    trusted_proxies: str = Field(
        default="127.0.0.1", description="Addresses of proxies whose `X-Forwarded-...` headers are trusted."
    )
    client_certificate_header: str | None = Field(
        default=None,
        pattern="^[A-Za-z0-9-]+$",
        description="Header in which trusted proxies tell the certificate that a client has shown, such as "
        "`Client-Cert`. They have to set or remove it in each request. Tokens may be bound to certificates.",
    )
    stop_seconds: float = Field(
        default=10.0, ge=0, le=3_600, description="Time that a stop waits for running requests."
    )

    connections_max: int = Field(
        default=20_000, ge=16, description="Connections at one time, of all clients; fewer if the system permits less."
    )
    connections_reserved: int = Field(
        default=20,
        ge=0,
        description="How many of them are kept for operators and for `/health`, `/ready` and `/metrics`, so that a "
        "broker that is full can still be looked at.",
    )
    head_seconds_max: float = Field(
        default=15.0, gt=0, description="Seconds within which a new connection sends the head of a request."
    )
    body_seconds_max: float = Field(
        default=60.0,
        gt=0,
        description="Seconds within which the body of a request is sent; a large one has more, see `body_rate_min`.",
    )
    body_rate_min: int = Field(
        default=1_000, ge=1, description="Bytes of a body for which its sender has a further second."
    )
    unread_seconds_max: float = Field(
        default=120.0, gt=0, description="Seconds after which a client that reads nothing of a response is cut off."
    )

    body_bytes_max: int = Field(
        default=32 * _MIB, ge=_KIB, le=MESSAGE_BYTES_CEILING, description="Bytes of one request body, unpacked."
    )
    batch_messages_max: int = Field(default=10_000, ge=1, description="Messages published by one request.")
    depth_max: int = Field(default=Limits().depth_max, ge=1, description="Elements open at one time in a message.")
    attributes_max: int = Field(
        default=Limits().attributes_max, ge=1, description="Attributes and namespace declarations of one start tag."
    )
    query_bytes_max: int = Field(default=Limits().query_bytes_max, ge=16, description="Bytes of one query.")
    query_steps_max: int = Field(default=Limits().query_steps_max, ge=1, description="Steps of one query.")
    query_nesting_max: int = Field(
        default=Limits().query_nesting_max,
        ge=1,
        le=QUERY_NESTING_CEILING,
        description="Nesting of brackets and parentheses in one query.",
    )
    query_visits_max: int = Field(
        default=Limits().query_visits_max,
        ge=1_000,
        description="Nodes that one query may visit in one message if it is evaluated by itself.",
    )
    message_visits_max: int = Field(
        default=Limits().message_visits_max,
        ge=1_000,
        description="What evaluating all queries of a tenant may cost on one message, in visits of about 5 ns; more "
        "for large messages. What does not fit is undecided, and told to its owner.",
    )
    group_visits_max: int = Field(
        default=Limits().group_visits_max,
        ge=1_000,
        description="The same for the subscriptions of one subscriber, of those that need turns of their own.",
    )
    overruns_max: int = Field(
        default=Limits().overruns_max,
        ge=0,
        description="Messages on which a subscription may be too expensive before it is set aside for some messages; "
        "0: it never is.",
    )
    message_result_bytes_max: int = Field(
        default=256 * _MIB, ge=_KIB, description="Bytes of the different results of one message together."
    )
    result_bytes_max: int = Field(
        default=32 * _MIB, ge=_KIB, description="Bytes of the results of one query on one message."
    )
    cache_bytes_max: int = Field(
        default=Limits().cache_bytes_max, ge=_MIB, description="Bytes that the engine may use for automata."
    )

    retention_seconds: float = Field(
        default=7 * _DAY, ge=0, description="Time that messages are kept, delivered or not; 0 for no limit."
    )
    retention_bytes: int = Field(
        default=10 * _GIB,
        ge=0,
        description="Bytes of messages that are kept; the oldest are removed first. 0 for no limit.",
    )

    keep_pending: bool = Field(
        default=False,
        description="Whether messages are kept, whatever their age and size, until every subscriber that they wait for "
        "has acknowledged them. `pending_max` bounds what waits.",
    )

    lifecycle_seconds: float = Field(
        default=30 * _DAY,
        gt=0,
        description="Time after which the broker forgets which messages update and cancel each other, counted from the "
        "last of them, or from when it expires.",
    )

    allow_private_urls: bool = Field(
        default=False,
        description="Whether webhooks and polled feeds may have private, link-local and loopback addresses.",
    )
    allowed_url_hosts: tuple[str, ...] = Field(
        default=(),
        description="Host names, addresses and networks, such as `10.1.0.0/16`, that webhooks and polled feeds may "
        "have although they are not public, separated by commas.",
    )
    push_attempts_max: int = Field(
        default=12, ge=1, description="Attempts to push a delivery (webhook, WebSub) until it becomes a dead letter."
    )
    push_seconds_max: float = Field(
        default=_DAY, gt=0, description="Seconds after the first attempt when it becomes one, whatever their number."
    )
    push_retry_seconds: float = Field(
        default=1.0, gt=0, description="Longest wait after the first failed attempt; it doubles with each further one."
    )
    push_retry_seconds_max: float = Field(default=3_600.0, gt=0, description="Longest wait between two attempts.")
    push_timeout_seconds: float = Field(
        default=30.0, gt=0, description="Seconds that a request to a webhook, callback or feed may take in all."
    )
    push_concurrency: int = Field(default=64, ge=1, description="Pushes at one time, to all hosts.")
    push_concurrency_per_host: int = Field(default=8, ge=1, description="Pushes at one time to one host.")
    push_breaker_failures: int = Field(
        default=5, ge=1, description="Failures in a row after which nothing is sent to a host for a while."
    )
    websub_lease_seconds: float = Field(
        default=10 * _DAY, ge=60, description="Lease of WebSub subscribers that request none."
    )
    websub_lease_seconds_max: float = Field(default=30 * _DAY, ge=60, description="Longest lease that is granted.")
    poll_concurrency: int = Field(default=8, ge=1, description="Sources that are polled at one time.")
    poll_interval_min: float = Field(default=10.0, ge=1, description="Least seconds between two polls of a source.")
    poll_links_max: int = Field(
        default=200, ge=1, description="Links to documents that one poll of a source follows; the next goes on."
    )
    poll_links_seconds_max: float = Field(
        default=120.0, ge=1, description="Seconds after which one poll begins no further document."
    )

    join: tuple[str, ...] = Field(
        default=(),
        description="Brokers to form an overlay with, such as `grpcs://north.example.org:7400`, separated by commas.",
    )
    overlay_listen: str | None = Field(
        default=None, description="Host and port on which the broker listens for other brokers, such as `0.0.0.0:7400`."
    )
    overlay_identity: str | None = Field(
        default=None,
        description="Name of this broker in the overlay, for good; its certificate must hold it. By default the one "
        "it had before, at first the host name.",
    )
    overlay_cert: str | None = Field(
        default=None, description="File (PEM) with the certificate that is shown to other brokers."
    )
    overlay_key: str | None = Field(default=None, description="File (PEM) with its private key.")
    overlay_ca: str | None = Field(
        default=None, description="File (PEM) with the authority that has signed the certificates of all brokers."
    )
    overlay_insecure: bool = Field(
        default=False,
        description="Whether links to brokers on other machines need no certificates: anyone who reaches the "
        "port can then read and publish everything.",
    )
    overlay_where: str | None = Field(
        default=None,
        description="Host and port under which others reach this broker, where it is not `overlay_listen`.",
    )
    overlay_forms: tuple[str, ...] = Field(
        default=(),
        description="Forms of messages to and from other brokers, in order of preference, separated by commas: "
        "`stream` or `dictionary` (parsed), `text`, each also with `+zlib` or `+zstd`. With `NAME=` before a "
        "form, for the broker of that name. Text is always understood, and what is used where nothing else is "
        "shared.",
    )
    overlay_queue_bytes_max: int = Field(
        default=64 * _MIB,
        ge=_MIB,
        description="Bytes that may wait for a neighbour; beyond that the link to it is closed.",
    )
    overlay_retention_factor: float = Field(
        default=2.0,
        ge=1,
        description="How many times longer than `retention_seconds`, and in how many times more than "
        "`retention_bytes`, messages are kept that another broker has not got yet.",
    )

    overlay_registry: tuple[str, ...] = Field(
        default=(),
        description="Names of the brokers that hold the registry of sources and profiles together, separated by "
        "commas: one, or three or five, the same on all of these. Without it, the others say, or there is none.",
    )
    overlay_place: str = Field(
        default="0,0",
        description="Where this broker is, as `X,Y` on any map: sources and subscribers are sent to brokers near them.",
    )
    overlay_capacity: float = Field(
        default=50e6, gt=0, description="Bytes a second that this broker takes from registered sources."
    )
    overlay_placement: Literal["nearest", "content", "both"] = Field(
        default="both",
        description="How the registry chooses the broker for a subscriber: the `nearest` one, one with similar "
        "subscriptions (`content`), or `both` weighed. Only the brokers that hold the registry use it.",
    )

    overlay_reduce: bool = Field(
        default=False,
        description="Whether links carry only the part of messages that the subscriptions behind them take. What "
        "another broker stores is then that part, which is all that a replay finds there.",
    )

    metrics_public: bool = Field(
        default=False, description="Whether `/metrics` answers without a token; otherwise an admin token is needed."
    )
    console: bool = Field(default=True, description="Whether there is a console at `/`.")

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level that is logged: `debug` (each request), `info`, `warning` or `error`."
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="Form of the log on standard error: `text`, or `json` (one object a line)."
    )
    otel_endpoint: str | None = Field(
        default=None,
        description="Where traces are sent: an OTLP/HTTP address such as `http://localhost:4318/v1/traces`. "
        "By default there are none.",
    )

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if origin != "*" and not re.fullmatch(r"https?://[a-z0-9.:\[\]-]+", origin):
                raise ValueError(f"{origin!r} is no origin; it must look like https://app.example.org, in lower case")
        return value

    @field_validator(
        "cors_origins", "trusted_hosts", "allowed_url_hosts", "join", "overlay_registry", "overlay_forms", mode="before"
    )
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(filter(None, (part.strip() for part in value.split(",")))) if isinstance(value, str) else value

    @field_validator("allowed_url_hosts")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        try:
            UrlPolicy.of(permitted=value)
        except UrlRefused as error:
            raise ValueError(error.reason) from None
        return value

    @field_validator("public_url", "otel_endpoint")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("it must start with http:// or https://")
        return value

    def secrets_keys(self) -> list[str]:
        """Returns the keys that seal the secrets of the store, the newest first; raises SecretsSealed."""
        text = None if self.secrets_key is None else self.secrets_key.get_secret_value()
        return read_keys(text, self.secrets_key_file)

    @property
    def engine_limits(self) -> Limits:
        """The limits of the engine."""
        names = Limits().as_dict().keys() - {"message_bytes_max"}
        return Limits(message_bytes_max=self.body_bytes_max, **{name: getattr(self, name) for name in names})

    def limits_of(self, tenant: Tenant) -> TenantLimits:
        """Returns the limits of a tenant: its own, and the broker's for the rest."""
        existing = {name: getattr(self, name) for name in TenantLimits.model_fields}
        return TenantLimits(**(existing | {k: v for k, v in tenant.limits.items() if k in existing}))


OTHER_VARIABLES: Final = frozenset({"TWIGCAST_URL", "TWIGCAST_TOKEN", "TWIGCAST_PROFILE", "TWIGCAST_NITF"})
"""Variables of the environment that other commands read."""

FOR_TESTS: Final = f"{ENVIRONMENT_PREFIX}TEST_"
"""How the variables begin that tests are set up with."""


def refuse_unknown_variables() -> None:
    """Raises ConfigError if the environment has a variable of Twigcast's that means nothing, such as a misspelt one."""
    known = {variable_of(name) for name in Settings.model_fields} | OTHER_VARIABLES
    for name in sorted(os.environ):
        if name.upper().startswith(ENVIRONMENT_PREFIX) and name.upper() not in known and not name.startswith(FOR_TESTS):
            meant = get_close_matches(name.upper(), known, 1)
            advice = f"; {meant[0]} may be meant" if meant else ""
            raise ConfigError(f"there is no setting {name[len(ENVIRONMENT_PREFIX) :].lower()!r} ({name}){advice}")


def load(flags: Mapping[str, Any] | None = None, file: Path | None = None) -> Settings:
    """Returns the settings from flags by name, environment, a TOML file and defaults, in this order.

    Text is read as in the environment. Raises ConfigError for a file or setting that cannot be used.
    """
    flags = dict(flags or {})
    from_file = _read(file) if file else {}
    _refuse_unknown(flags, "on the command line")
    if file:
        _refuse_unknown(from_file, f"in {file}")
    from_environment = _from_environment()
    try:
        return Settings(**{**from_file, **from_environment, **flags})
    except ValidationError as error:
        from_file = {name: value for name, value in from_file.items() if name not in from_environment}
        raise ConfigError(_explanation(error, flags, from_file, file)) from None


def _from_environment() -> dict[str, str]:
    """Returns the settings whose variables are set, in capitals or not; an empty one is like none."""
    supplied = {name.upper(): value for name, value in os.environ.items() if value}
    names = {name: variable_of(name) for name in Settings.model_fields}
    return {name: supplied[variable] for name, variable in names.items() if variable in supplied}


def first_mistake(error: ValidationError) -> str:
    """Returns the first mistake that an error names: the field, and the fault."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    reason = first["msg"].removeprefix("Value error, ")
    return f"{field}: {reason}" if field else reason


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: it cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: it is no TOML: {error}") from None


def _refuse_unknown(supplied: Mapping[str, Any], where: str) -> None:
    for name in supplied:
        if name not in Settings.model_fields:
            raise ConfigError(f"there is no setting {name!r} ({where})")


def variable_of(name: str) -> str:
    """Returns the variable of the environment that has a setting."""
    return f"{ENVIRONMENT_PREFIX}{name.upper()}"


def _explanation(
    error: ValidationError, flags: Mapping[str, Any], from_file: Mapping[str, Any], file: Path | None
) -> str:
    """Returns the first mistake: the setting, its origin, and the fault."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    if name in flags:
        where = "on the command line"
    elif name in from_file:
        where = f"in {file}"
    else:
        where = variable_of(name)
    return f"the setting {name!r} ({where}) cannot be used: {first['msg']}"
