"""Prints the environment of the configure preset that its argument names, a NAME=VALUE a line."""

import json
import pathlib
import sys

root = pathlib.Path(__file__).resolve().parents[2]
for preset in json.loads((root / "CMakePresets.json").read_text())["configurePresets"]:
    if preset["name"] == sys.argv[1]:
        for name, value in preset["environment"].items():
            print(f"{name}={value.replace('${sourceDir}', str(root))}")
