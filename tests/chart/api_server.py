"""As much of a Kubernetes API server as `helm template --dry-run=server` asks: its version, which kinds
there are, and objects by their names.

    with ApiServer(objects, folder) as kubeconfig: ...

Answers one process at a time on a loopback port, and changes nothing.
"""

import http.server
import json
import pathlib
import threading

VERSION = {"major": "1", "minor": "29", "gitVersion": "v1.29.0"}
# Kinds that the chart makes without the operators of others.
KINDS = {
    "v1": ("ConfigMap", "Pod", "Secret", "Service", "ServiceAccount"),
    "apps/v1": ("StatefulSet",),
    "batch/v1": ("Job",),
    "networking.k8s.io/v1": ("NetworkPolicy",),
    "policy/v1": ("PodDisruptionBudget",),
}


def _plural(kind):
    return (kind[:-1] + "ies" if kind.endswith("y") else kind + "s").lower()


def _root(version):
    return f"/api/{version}" if "/" not in version else f"/apis/{version}"


def _group(version):
    name, _, number = version.partition("/")
    entry = {"groupVersion": version, "version": number}
    return {"name": name, "versions": [entry], "preferredVersion": entry}


def answers(objects):
    """{path: what is answered there}."""
    result = {
        "/version": VERSION,
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "groups": [_group(name) for name in KINDS if "/" in name]},
    }
    for version, kinds in KINDS.items():
        resources = [{"name": _plural(kind), "kind": kind, "namespaced": True, "verbs": ["get"]} for kind in kinds]
        result[_root(version)] = {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
    for item in objects:
        meta = item["metadata"]
        place = f"{_root(item['apiVersion'])}/namespaces/{meta['namespace']}/{_plural(item['kind'])}"
        result[f"{place}/{meta['name']}"] = item
    return result


class ApiServer:
    def __init__(self, objects, folder):
        known = answers(objects)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = self.path.partition("?")[0]
                found = known.get(path)
                status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
                text = json.dumps(status if found is None else found).encode()
                self.send_response(404 if found is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._config = pathlib.Path(folder) / "kubeconfig"
        self._config.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{self._server.server_port}"}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }))

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self._config

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
