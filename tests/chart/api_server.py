"""As much of a Kubernetes API server as `helm template --dry-run=server` asks: its version, which
kinds there are, and objects by their names. It changes nothing.
"""

import contextlib
import http.server
import json
import pathlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

VERSION = {"major": "1", "minor": "29", "gitVersion": "v1.29.0"}
# Kinds that the chart makes without the operators of others.
KINDS = {
    "v1": ("ConfigMap", "Pod", "Secret", "Service", "ServiceAccount"),
    "apps/v1": ("StatefulSet",),
    "batch/v1": ("Job",),
    "networking.k8s.io/v1": ("NetworkPolicy",),
    "policy/v1": ("PodDisruptionBudget",),
}


def _plural(kind: str) -> str:
    return (kind[:-1] + "ies" if kind.endswith("y") else kind + "s").lower()


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _group(version: str) -> dict[str, Any]:
    name, _, number = version.partition("/")
    entry = {"groupVersion": version, "version": number}
    return {"name": name, "versions": [entry], "preferredVersion": entry}


def answers(objects: Iterable[Any]) -> dict[str, Any]:
    """{path: what is answered there}."""
    groups = [_group(name) for name in KINDS if "/" in name]
    result: dict[str, Any] = {
        "/version": VERSION,
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "groups": groups},
    }
    for version, kinds in KINDS.items():
        resources = [{"name": _plural(kind), "kind": kind, "namespaced": True, "verbs": ["get"]}
                     for kind in kinds]
        result[_root(version)] = {
            "kind": "APIResourceList", "groupVersion": version, "resources": resources,
        }
    for item in objects:
        meta = item["metadata"]
        place = f"{_root(item['apiVersion'])}/namespaces/{meta['namespace']}"
        result[f"{place}/{_plural(item['kind'])}/{meta['name']}"] = item
    return result


@contextlib.contextmanager
def serve(objects: Iterable[Any], folder: str) -> Iterator[pathlib.Path]:
    """The path of a kubeconfig, in the folder, of a server on loopback that knows the objects."""
    known = answers(objects)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = known.get(self.path.partition("?")[0])
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure",
                      "reason": "NotFound", "code": 404}
            text = json.dumps(found or status).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        config = pathlib.Path(folder) / "kubeconfig"
        address = f"http://127.0.0.1:{server.server_port}"
        config.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": address}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }))
        yield config
        server.shutdown()
