"""A cluster of one shard that answers as a transcript says, and compares what it is asked.

It needs the messages, grpcio and googleapis-common-protos.
"""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any, NoReturn

import grpc
import numpy as np
from counted_increments import ROWS_OF_UPDATE
from dslide.v1 import common_pb2, coordinator_pb2, model_pb2, shard_pb2
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2, status_pb2

_VERSION = (pathlib.Path(__file__).resolve().parents[2] / "VERSION").read_text("ascii").strip()
_TOPOLOGY = 3
_SLOTS = 1024
_NOBODY = 900  # the value of an answer to a number that was never sent
Turn = dict[str, Any]


def value_of_operation(operation: int) -> int:
    """The sum that the shard answers to the operation of a step stream."""
    return 100 + operation


class ScriptedCluster:
    """Serves a coordinator and its only shard at one address. Made for one client.

    A turn is a call that is expected, with the fields that are compared (a list: any of them), and
    its answer: "applied"; "lost", as a connection that breaks; a code with a reason word; or what a
    greeting says. One that is `optional` may be left out, one that is to `repeat` goes on to the
    next call that is not it, or the end of the update, as often as is asked, or never. What was
    repeated when a client gave an update up may still be on its way when the next one begins: it
    is answered as before.

    To a request of a step stream the answer may be "ended", of the stream in good order, or a list
    of what the stream then says: {"sequence"} alone for an answer, with a code for a refusal, and
    "lost".
    """

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self._lock = threading.Lock()
        self._turns: list[Turn] = []
        self._late: list[Turn] = []  # of the update before
        self._specs: dict[str, model_pb2.ModelSpec] = {}
        self._operations: dict[int, bytes] = {}  # as they were first sent, without the envelope
        self._operation_of: dict[int, int] = {}  # by sequence
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers((_Router(self),))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(None).wait()

    def begin(self, turns: list[Turn]) -> None:
        """What one update is to look like from here."""
        with self._lock:
            self._turns = list(turns)

    def end(self) -> list[str]:
        """What was wrong with the update; it has its outcome."""
        with self._lock:
            missing = [turn for turn in self._turns if not ({"optional", "repeat"} & turn.keys())]
            wrong = self.wrong + [f"never asked: {_shown(turn)}" for turn in missing]
            self._late = [turn for turn in self._turns if "repeat" in turn]
            self._turns, self.wrong = [], []
            return wrong

    def _next(self, call: str, found: dict[str, Any]) -> Any:
        """The answer of the turn that a call is; None: it is none that was expected."""
        with self._lock:
            for place, turn in enumerate(self._turns):
                if _is_turn(turn, call, found):
                    self._turns = self._turns[place + ("repeat" not in turn):]
                    return turn["answer"]
                if not turn.get("optional"):
                    break
            for turn in self._late:
                if _is_turn(turn, call, found):
                    return turn["answer"]
            expected = _shown(self._turns[0]) if self._turns else "nothing more"
            self.wrong.append(f"{call} {found}, expected {expected}")
            return None

    # --- Calls ---------------------------------------------------------------------------------

    def hello(self, request: shard_pb2.HelloRequest,
              context: grpc.ServicerContext) -> shard_pb2.HelloResponse:
        answer = self._next("hello", {"acknowledged": request.acknowledged_sequence})
        if not isinstance(answer, dict):
            _refuse(answer, context)
        return shard_pb2.HelloResponse(topology_version=_TOPOLOGY, **answer)

    def scatter(self, requests: Any, context: grpc.ServicerContext) -> shard_pb2.ScatterResponse:
        [request] = list(requests)
        envelope = request.envelope
        answer = self._next("scatter", _numbers_of(envelope) | {"update": _update_of(request)})
        if answer != "applied":
            _refuse(answer, context)
        return shard_pb2.ScatterResponse()

    def step(self, requests: Any,
             context: grpc.ServicerContext) -> Iterator[shard_pb2.StepResponse]:
        for request in requests:
            sequence = request.envelope.sequence
            answer = self._next("step", _numbers_of(request.envelope)
                                | {"update": self._operation(request)})
            if answer == "ended":
                return
            if answer is None:
                _refuse(answer, context)
            for said in answer if isinstance(answer, list) else [answer]:
                if said == "lost":
                    _refuse(said, context)
                fields = {"sequence": sequence} | ({} if said == "applied" else said)
                yield self._step_response(fields)

    def _operation(self, request: shard_pb2.StepRequest) -> Any:
        """The number of the operation; a text where it is none, or was another one before."""
        rows = np.frombuffer(request.embed_forward.row_ids, "<u4")
        values = np.frombuffer(request.embed_forward.values, "<f4")
        if len(rows) != 1 or values.tolist() not in ([], [1.0]):
            return f"an EmbedForward of the rows {rows.tolist()} with {values.tolist()}"
        operation = int(rows[0])
        bare = shard_pb2.StepRequest()
        bare.CopyFrom(request)
        bare.ClearField("envelope")
        content = _bytes_of(bare)
        with self._lock:
            self._operation_of[request.envelope.sequence] = operation
            if self._operations.setdefault(operation, content) != content:
                return f"{operation}, not as it was sent before"
        return operation

    def _step_response(self, said: dict[str, Any]) -> shard_pb2.StepResponse:
        response = shard_pb2.StepResponse(sequence=said["sequence"], generation=7)
        if "code" in said:
            error = response.error
            error.code, error.reason = grpc.StatusCode[said["code"]].value[0], said["reason"]
            error.message = "refused"
            if "retry_after_ms" in said:
                error.retry_after.FromMilliseconds(said["retry_after_ms"])
            return response
        with self._lock:
            operation = self._operation_of.get(said["sequence"])
        value = _NOBODY if operation is None else value_of_operation(operation)
        partial = response.embed_forward.partial
        partial.rows, partial.cols = 1, 1
        partial.element_type = common_pb2.ELEMENT_TYPE_F32
        partial.data = np.array([value], "<f4").tobytes()
        return response

    def register_model(self, request: coordinator_pb2.RegisterModelRequest,
                       _: object) -> coordinator_pb2.RegisterModelResponse:
        spec = model_pb2.ModelSpec()
        spec.CopyFrom(request.spec)
        for table in spec.tables:  # a registered spec has every field
            table.num_slots = table.num_slots or _SLOTS
            table.role = table.role or "embedding"
        self._specs[spec.name] = spec
        return coordinator_pb2.RegisterModelResponse(created=True)

    def list_models(self, _: object, __: object) -> coordinator_pb2.ListModelsResponse:
        return coordinator_pb2.ListModelsResponse(
            models=[self._specs[name] for name in sorted(self._specs)])

    def cluster_map(self, request: coordinator_pb2.GetClusterMapRequest,
                    _: object) -> coordinator_pb2.GetClusterMapResponse:
        slots = [model_pb2.SlotAssignment(num_slots=number, owners=bytes(2 * number),
                                          num_shards=1) for number in request.num_slots or [_SLOTS]]
        shard = coordinator_pb2.ShardInfo(shard_id=0, address=self.address, generation=7)
        return coordinator_pb2.GetClusterMapResponse(topology_version=_TOPOLOGY, shards=[shard],
                                                     slots=slots)

    @staticmethod
    def server_info(_: object, __: object) -> shard_pb2.GetServerInfoResponse:
        return shard_pb2.GetServerInfoResponse(version=_VERSION, generation=7,
                                               topology_version=_TOPOLOGY)

    @staticmethod
    def close_client(_: object, __: object) -> shard_pb2.CloseClientResponse:
        return shard_pb2.CloseClientResponse()


class _Router(grpc.GenericRpcHandler):
    """The calls of both services, by their path."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        coordinator, shard = "/dslide.v1.CoordinatorService", "/dslide.v1.ShardService"
        self._handlers = {
            f"{coordinator}/GetClusterMap": _unary(cluster.cluster_map,
                                                   coordinator_pb2.GetClusterMapRequest),
            f"{coordinator}/RegisterModel": _unary(cluster.register_model,
                                                   coordinator_pb2.RegisterModelRequest),
            f"{coordinator}/ListModels": _unary(cluster.list_models,
                                                coordinator_pb2.ListModelsRequest),
            f"{shard}/GetServerInfo": _unary(cluster.server_info,
                                             shard_pb2.GetServerInfoRequest),
            f"{shard}/CloseClient": _unary(cluster.close_client, shard_pb2.CloseClientRequest),
            f"{shard}/Hello": _unary(cluster.hello, shard_pb2.HelloRequest),
            f"{shard}/Scatter": grpc.stream_unary_rpc_method_handler(
                cluster.scatter, shard_pb2.ScatterRequest.FromString, _bytes_of),
            f"{shard}/Step": grpc.stream_stream_rpc_method_handler(
                cluster.step, shard_pb2.StepRequest.FromString, _bytes_of),
        }

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        return self._handlers.get(details.method)


def _bytes_of(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def _unary(answer: Any, request: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(answer, request.FromString, _bytes_of)


def any_of(values: Any) -> list[Any]:
    """What is allowed where a transcript says one value, or a list."""
    return values if isinstance(values, list) else [values]


def _is_turn(turn: Turn, call: str, found: dict[str, Any]) -> bool:
    """Whether a call with these fields is the one that the turn expects."""
    # Who waits for each answer has no other number that is open.
    expected = {"first_incomplete": found.get("sequence"), **turn}
    return call in any_of(turn["call"]) and all(
        value in any_of(expected.get(name, value)) for name, value in found.items())


def _shown(turn: Turn) -> str:
    fields = {name: value for name, value in turn.items() if name not in ("call", "answer")}
    return f"{' or '.join(any_of(turn['call']))} {fields}"


def _numbers_of(envelope: common_pb2.RequestEnvelope) -> dict[str, Any]:
    return {"sequence": envelope.sequence, "first_incomplete": envelope.first_incomplete,
            "generation": envelope.generation}


def _update_of(request: shard_pb2.ScatterRequest) -> Any:
    """The number of the update whose rows these are; a text where they are nobody's."""
    rows = np.frombuffer(request.rows.row_ids, "<u4")
    values = np.frombuffer(request.rows.values.data, "<f4")
    update = int(rows[0]) // ROWS_OF_UPDATE if len(rows) else 0
    expected = ROWS_OF_UPDATE * update + np.arange(ROWS_OF_UPDATE)
    whole = np.array_equal(rows, expected) and np.array_equal(values, np.ones(ROWS_OF_UPDATE))
    if not whole or request.mode != shard_pb2.SCATTER_MODE_ADD:
        return f"rows {rows.tolist()} of {values.tolist()}, mode {request.mode}"
    return update


def _refuse(answer: Any, context: grpc.ServicerContext) -> NoReturn:
    if answer == "lost":
        context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")
    if not isinstance(answer, dict):
        context.abort(grpc.StatusCode.INTERNAL, "not as the transcript says")
    code, reason = grpc.StatusCode[answer["code"]], answer["reason"]
    status = status_pb2.Status(code=code.value[0], message="refused")
    details = [error_details_pb2.ErrorInfo(reason=reason, domain="dslide")]
    if pause := answer.get("retry_after_ms"):
        delay = duration_pb2.Duration(nanos=1_000_000 * pause)
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    for detail in details:
        status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(code, "refused")
    raise AssertionError("abort raises")
