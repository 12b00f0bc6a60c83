"""What the chart renders already and the programs do not know yet.

A flag in these lists that the binary at hand refuses is left out, loudly, when the rendered command
lines are put to the test; a flag that is not listed must be known. Empty the lists once the programs
have caught up.
"""

_TLS = ["tls-cert", "tls-key", "tls-ca"]
_SERVER = _TLS + ["tls-reload-interval", "tls-cluster", "authorization"]

PENDING_FLAGS = {
    "dslide-shard": _SERVER,
    "dslide-coordinator": _SERVER + ["checkpoint-dir", "checkpoint-interval", "checkpoint-keep"],
    "dslide": _TLS,
}

# Subcommands of `dslide`.
PENDING_COMMANDS = ["health"]
