"""A real Prometheus on loopback, with the project's scrape configuration and alerts."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request

import observability_paths
import processes

# Short, so that a test sees rates after seconds.
INTERVAL = "1s"
RATE_WINDOW = "15s"


def configuration(admins):
    """deploy/prometheus/prometheus.yaml for these pages: {job: [HOST:PORT]}."""
    text = (observability_paths.PROMETHEUS / "prometheus.yaml").read_text(encoding="utf-8")
    text = re.sub(r"(scrape_interval|evaluation_interval): \S+", rf"\1: {INTERVAL}", text)
    text = text.replace("- alerts.yaml", f"- {observability_paths.ALERTS}")
    for job, addresses in admins.items():
        text, count = re.subn(
            rf"(- job_name: {job}\n(?:.*\n)*?.*- targets: )\[.*\]",
            lambda match, found=addresses: match.group(1) + json.dumps(found), text, count=1)
        if count != 1:
            raise AssertionError(f"deploy/prometheus/prometheus.yaml has no job {job}")
    return text


class PrometheusServer:
    """`test` is a processes.ProcessTest, which owns the process and the directory."""

    def __init__(self, test, admins):
        self._expected = sum(len(addresses) for addresses in admins.values())
        config = test.directory / "prometheus.yaml"
        config.write_text(configuration(admins), encoding="utf-8")
        self.address = f"127.0.0.1:{processes.free_port()}"
        self.process = test.start(
            "/usr/bin/prometheus", f"--config.file={config}",
            f"--storage.tsdb.path={test.directory / 'tsdb'}",
            f"--web.listen-address={self.address}")
        # No proxy: loopback is never reached through one.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path, **parameters):
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

    def query(self, expression):
        """[(labels, value)] now."""
        data = self.get("query", query=expression)
        return [(entry["metric"], float(entry["value"][1])) for entry in data["result"]]

    def query_range(self, expression, start, end, step):
        """[(labels, [(time, value)])]."""
        data = self.get("query_range", query=expression, start=start, end=end, step=step)
        return [(entry["metric"], [(float(at), float(value)) for at, value in entry["values"]])
                for entry in data["result"]]

    def wait_until_scraped(self):
        def scraped():
            data = self.get("query", query="sum(up)")
            return data and data["result"] and (
                float(data["result"][0]["value"][1]) == self._expected)

        processes.wait_until(scraped, lambda: f"{self._expected} targets up",
                             alive=[self.process])
