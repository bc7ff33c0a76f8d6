"""Draws ``dashboard.svg``, what the dashboard in ``ops/`` shows of a broker under load.

Run ``python docs/pictures/dashboard.py --prometheus PATH`` after a change of the dashboard; PATH is the server of
Prometheus. A broker gets some minutes of traffic in which a subscriber stops for a while, a webhook fails and messages
are broken. Prometheus scrapes it and evaluates the very queries of the dashboard; matplotlib draws the answers where
the dashboard has its panels. So it is no photograph of Grafana, whose axes and colours differ. It fails if a query is
refused or finds nothing. ``--png FILE`` draws a bitmap to look at as well.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import httpx2
import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

SVG: Final = Path(__file__).with_suffix(".svg")
BOARD: Final = Path(__file__).resolve().parents[2] / "ops" / "grafana-dashboard.json"
STYLE: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "twigcast",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 8.5,
}
COLOURS: Final = ("#3b6fb6", "#c46a1b", "#2e7d4f", "#a3328f", "#78909c")
RATE: Final = "15s"
"""In place of Grafana's ``$__rate_interval``, for a scrape a second."""

SETTINGS: Final = (
    *("--set", "allow_private_urls=true", "--set", "poll_interval_min=1"),
    *("--set", "pending_max=400", "--set", "push_attempts_max=3", "--set", "push_retry_seconds=0.5"),
)


def _ok(response: httpx2.Response) -> dict[str, Any]:
    response.raise_for_status()
    result: dict[str, Any] = response.json()
    return result


class World:
    """The programs around the broker: publishers, subscribers, a webhook that fails for a while, a feed.

    Args:
        url: The broker.
        token: An operator's token.
        seconds: How long they go on.
    """

    def __init__(self, url: str, token: str, seconds: float) -> None:
        self._url, self._token, self._seconds = url, token, seconds
        self._began = time.monotonic()
        self._entries = 0

    def part(self) -> float:
        """Returns how much of the time is over, from 0 to 1."""
        return (time.monotonic() - self._began) / self._seconds

    def run(self) -> None:
        """Goes on until the time is over."""
        with self._site() as site, self._client(self._token) as http:
            _ok(http.post("/tenants", json={"name": "news"}))
            body = {"name": "news", "scopes": ["publish", "subscribe"], "tenant": "news"}
            news = str(_ok(http.post("/tokens", json=body))["token"])
            hook = {"kind": "webhook", "url": f"{site}/hook"}
            for key, query, more in (
                ("storms", "//alert[event = 'Storm']", {}),
                ("all", "//alert", {"subscriber": "desk"}),
                ("archive", "//alert", {"overflow": "drop_oldest"}),
                ("hook", "//alert[level > 4]", {"delivery": hook}),
            ):
                _ok(http.post("/subscriptions", json={"key": key, "query": query, **more}))
            _ok(http.put("/sources/wires", json={"kind": "rss", "url": f"{site}/feed", "interval": 2}))
            with self._client(news) as other:
                floods = {"key": "floods", "query": "//alert[event = 'Flood']", "subscriber": "desk"}
                _ok(other.post("/subscriptions", json=floods))
            work: list[tuple[str, Callable[[httpx2.Client], None]]] = [
                (self._token, self._publish),
                (news, self._publish),
                (self._token, self._stream),
                (self._token, lambda client: self._pull(client, pauses=False)),
                (news, lambda client: self._pull(client, pauses=True)),
            ]
            threads = [threading.Thread(target=self._work, args=one) for one in work]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def _client(self, token: str) -> httpx2.Client:
        return httpx2.Client(base_url=self._url, headers={"Authorization": f"Bearer {token}"}, timeout=30)

    def _work(self, token: str, work: Callable[[httpx2.Client], None]) -> None:
        with self._client(token) as client:
            work(client)

    def _publish(self, client: httpx2.Client) -> None:
        """Publishes, now and then something broken, a message again, or another one under the id of one."""
        number = 0
        while (part := self.part()) < 1:
            number += 1
            event = "Storm" if number % 3 else "Flood"
            body = f"<alert><event>{event}</event><level>{number % 6}</level></alert>"
            body = body[:-9] if number % 40 == 0 else body
            client.post("/messages", content=body, params={"id": f"m{number}"})
            if number % 50 == 1:
                client.post("/messages", content=body, params={"id": f"m{number}"})
            if number % 70 == 1:
                client.post("/messages", content="<other/>", params={"id": f"m{number}"})
            time.sleep(0.02 if 0.3 < part < 0.6 else 0.05)

    def _stream(self, client: httpx2.Client) -> None:
        with client.stream("GET", "/deliveries/stream", params={"subscriber": "storms", "ack": "auto"}) as stream:
            for _ in stream.iter_lines():
                if self.part() >= 1:
                    return

    def _pull(self, client: httpx2.Client, *, pauses: bool) -> None:
        while (part := self.part()) < 1:
            if pauses and 0.35 < part < 0.65:
                time.sleep(0.2)
                continue
            found = _ok(client.get("/deliveries", params={"subscriber": "desk", "limit": 50, "wait": 1}))["deliveries"]
            if found:
                client.post("/deliveries/ack", json={"subscriber": "desk", "up_to": found[-1]["id"]})

    @contextmanager
    def _site(self) -> Iterator[str]:
        """Serves a webhook that fails for a while, and a feed that grows."""
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(503 if 0.4 < world.part() < 0.55 else 204)
                self.end_headers()

            def do_GET(self) -> None:
                world._entries += 1
                numbers = range(world._entries, 0, -1)[:20]
                items = "".join(f"<item><guid>{n}</guid><title>t</title></item>" for n in numbers)
                self.send_response(500 if 0.7 < world.part() < 0.8 else 200)
                self.end_headers()
                self.wfile.write(f"<rss version='2.0'><channel>{items}</channel></rss>".encode())

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@contextmanager
def started(command: list[str], ready: Callable[[], bool], name: str, folder: Path) -> Iterator[None]:
    """Runs a program from when it is ready; its output is in the folder."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - our own commands
        try:
            for _ in range(300):
                if ready():
                    break
                time.sleep(0.1)
            else:
                raise SystemExit(f"{name} did not start: {(folder / f'{name}.log').read_text()[-2_000:]}")
            yield
        finally:
            process.terminate()
            process.wait(30)


def _answers(url: str) -> bool:
    try:
        return httpx2.get(url).status_code == httpx2.codes.OK
    except httpx2.TransportError:
        return False


def record(prometheus: Path, seconds: float, ports: tuple[int, int]) -> dict[str, list[tuple[str, list[list[float]]]]]:
    """Returns the series of each panel: a legend, and points of seconds and value."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker, server = f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
        token = folder / "token"
        job = {
            "job_name": "twigcast",
            "authorization": {"credentials_file": str(token)},
            "static_configs": [{"targets": [f"127.0.0.1:{ports[0]}"]}],
        }
        config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}
        (folder / "prometheus.json").write_text(json.dumps(config))
        serve = [sys.executable, "-m", "twigcast", "serve", "--store", str(folder / "store"), "--port", str(ports[0])]
        scrape = [
            str(prometheus),
            f"--config.file={folder / 'prometheus.json'}",
            f"--storage.tsdb.path={folder / 'db'}",
        ]
        scrape += [f"--web.listen-address=127.0.0.1:{ports[1]}"]
        with (
            started(
                [*serve, "--token-file", str(token), *SETTINGS], lambda: _answers(f"{broker}/ready"), "broker", folder
            ),
            started(scrape, lambda: _answers(f"{server}/-/ready"), "prometheus", folder),
        ):
            began = time.time()
            World(broker, token.read_text().strip(), seconds).run()
            return {panel["title"]: answers(server, panel, began, began + seconds) for panel in panels()}


def panels() -> list[dict[str, Any]]:
    """Returns the panels of the dashboard, in its order."""
    result: list[dict[str, Any]] = json.loads(BOARD.read_text(encoding="utf-8"))["panels"]
    return result


def answers(server: str, panel: dict[str, Any], first: float, last: float) -> list[tuple[str, list[list[float]]]]:
    """Returns what Prometheus says to the queries of a panel; raises SystemExit if it refuses one or finds nothing."""
    series: list[tuple[str, list[list[float]]]] = []
    for target in panel["targets"]:
        query = target["expr"].replace("$__rate_interval", RATE).replace("$instance", ".*").replace("$tenant", ".*")
        about = {"query": query, "start": first, "end": last, "step": 1}
        answer = httpx2.get(f"{server}/api/v1/query_range", params=about).json()
        found = answer.get("data", {}).get("result", [])
        if not found:
            raise SystemExit(f"{panel['title']}: {query}: {answer.get('error', 'it finds nothing')}")
        for one in found:
            legend = re.sub(r"\{\{(\w+)\}\}", lambda name, one=one: one["metric"][name[1]], target["legendFormat"])
            points = [[float(at) - first, float(value)] for at, value in one["values"] if value != "NaN"]
            series.append((legend, points))
    return series


def _in_unit(unit: str) -> FuncFormatter:
    """Returns the writing of numbers on an axis, as Grafana's units have it."""

    def shown(value: float, _: object = None) -> str:
        if unit == "bytes":
            return f"{value / 2**20:.0f} MiB"
        if unit == "s":
            return f"{value * 1e3:g} ms" if value < 1 else f"{value:g} s"
        return f"{value:g}" + ("/s" if unit == "ops" else "")

    return FuncFormatter(shown)


def draw(recorded: dict[str, list[tuple[str, list[list[float]]]]], png: Path | None = None) -> str:
    """Returns the picture, as SVG; writes a bitmap as well if asked to."""
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels())
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11.6, rows * 0.26))
        for panel in panels():
            grid = panel["gridPos"]
            left, bottom = grid["x"] / 24 + 0.055, 1 - (grid["y"] + grid["h"]) / rows + 0.028
            axes = figure.add_axes((left, bottom, grid["w"] / 24 - 0.075, grid["h"] / rows - 0.055))
            _draw_panel(axes, panel, recorded[panel["title"]])
        if png is not None:
            figure.savefig(png, dpi=110)
        with tempfile.TemporaryFile("w+") as file:
            figure.savefig(file, format="svg", metadata={"Date": None, "Title": "The dashboard of ops/, drawn"})
            file.seek(0)
            return re.sub(r"[ \t]+$", "", file.read(), flags=re.MULTILINE)


def _draw_panel(axes: Axes, panel: dict[str, Any], series: list[tuple[str, list[list[float]]]]) -> None:
    for number, (legend, points) in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        axes.plot([at for at, _ in points], [value for _, value in points], color=colour, linewidth=1.1, label=legend)
    axes.set_title(panel["title"], loc="left", fontsize=9.5, fontweight="bold")
    # The legend stands above the lines.
    axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * (1.1 + 0.13 * len(series)))
    axes.set_xlim(left=0)
    axes.yaxis.set_major_formatter(_in_unit(panel["fieldConfig"]["defaults"]["unit"]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g} s"))
    axes.grid(color="#e5e8ec", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors="#4b5563", length=0)
    axes.legend(loc="upper left", fontsize=7.5, frameon=True, framealpha=0.8, edgecolor="none")


def main() -> None:
    """Records, draws and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prometheus", type=Path, required=True, help="the server of Prometheus")
    parser.add_argument("--seconds", type=float, default=180.0, help="how long the broker gets traffic")
    parser.add_argument("--ports", type=int, nargs=2, default=(18_480, 18_490), help="of the broker and of Prometheus")
    parser.add_argument("--png", type=Path, help="a bitmap to look at")
    chosen = parser.parse_args()
    recorded = record(chosen.prometheus, chosen.seconds, tuple(chosen.ports))
    SVG.write_text(draw(recorded, chosen.png), encoding="utf-8")
    print(f"{SVG}: {sum(map(len, recorded.values()))} series in {len(recorded)} panels")


if __name__ == "__main__":
    main()
