"""A real Prometheus on loopback, with the project's scrape configuration and alerts."""

import json
import pathlib
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import dashboards
import processes
import yaml
from processes import Programs

# Short, so that a test sees rates after seconds.
INTERVAL = "1s"
RATE_WINDOW = "15s"


def configuration(admins: dict[str, list[str]], rules: pathlib.Path | None = None) -> str:
    """deploy/prometheus/prometheus.yaml for these pages: {job: [HOST:PORT]}; None: its rules."""
    config = yaml.safe_load((dashboards.PROMETHEUS / "prometheus.yaml").read_text())
    config["global"] |= {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL}
    config["rule_files"] = [str(rules)] if rules else [
        str(dashboards.PROMETHEUS / name) for name in config["rule_files"]]
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    for job, addresses in admins.items():
        jobs[job]["static_configs"][0]["targets"] = addresses
    return yaml.safe_dump(config)


class PrometheusServer:
    def __init__(self, programs: Programs, admins: dict[str, list[str]],
                 rules: pathlib.Path | None = None) -> None:
        self._expected = sum(map(len, admins.values()))
        config = programs.directory / "prometheus.yaml"
        config.write_text(configuration(admins, rules), encoding="utf-8")
        self.address = f"127.0.0.1:{processes.free_port()}"
        self.process = programs.start(
            "/usr/bin/prometheus", f"--config.file={config}",
            f"--storage.tsdb.path={programs.directory / 'tsdb'}",
            f"--web.listen-address={self.address}")
        # No proxy: loopback is never reached through one.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        processes.wait_until(self._has_scraped, lambda: f"{self._expected} targets up",
                             [self.process])

    def get(self, path: str, **parameters: object) -> Any:
        """The `data` of an answer of its HTTP API; None while it does not answer."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with self._opener.open(url, timeout=processes.PATIENCE_SECONDS) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is starting
                return None
            raise AssertionError(f"{url}: {error.read().decode()}") from error
        except OSError:
            return None

    def query_range(self, expression: str, start: float, end: float, step: float) -> list[Any]:
        """[(labels, [(time, value)])]."""
        data = self.get("query_range", query=expression, start=start, end=end, step=step)
        return [(entry["metric"], [(float(at), float(value)) for at, value in entry["values"]])
                for entry in data["result"]]

    def _has_scraped(self) -> bool:
        data = self.get("query", query="sum(up)")
        return bool(data and data["result"]
                    and float(data["result"][0]["value"][1]) == self._expected)
