"""What the chart renders already and the programs do not know yet.

A flag in these lists that the binary at hand refuses is left out, loudly, when the rendered command
lines are put to the test; a flag that is not listed must be known. Nothing is pending now.
"""

PENDING_FLAGS = {"dslide-shard": [], "dslide-coordinator": [], "dslide": []}

# Subcommands of `dslide`.
PENDING_COMMANDS = []
