"""Generates dslide/v1 from the protos before anything else; the rest is in pyproject.toml."""

import pathlib
import shutil

import grpc_tools
from grpc_tools import protoc
from setuptools import setup
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
# In a checkout the protos are those of the project; a source distribution has its own copy.
COPY = HERE / "protos"
PROTOS = COPY if COPY.is_dir() else HERE.parents[1] / "protos"


def generate():
    """Writes the messages, their types and the stubs to src/dslide/v1.

    Always: setuptools looks for packages before it runs any command.
    """
    names = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.glob("dslide/v1/*.proto"))
    include = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    out = HERE / "src"
    status = protoc.main(
        [
            "protoc",
            f"-I{PROTOS}",
            f"-I{include}",
            f"--python_out={out}",
            f"--pyi_out={out}",
            f"--grpc_python_out={out}",
            *names,
        ]
    )
    if status != 0 or not names:
        raise SystemExit(f"protoc could not generate {names or 'anything'} from {PROTOS}")
    (out / "dslide" / "v1" / "__init__.py").write_text(
        '"""Generated from protos/dslide/v1."""\n', encoding="utf-8"
    )


class SourceDistribution(sdist):
    """With a copy of the protos, which lie outside this folder in a checkout."""

    def run(self):
        copied = PROTOS != COPY
        if copied:
            shutil.copytree(PROTOS, COPY)
        try:
            super().run()
        finally:
            if copied:
                shutil.rmtree(COPY)


generate()
setup(cmdclass={"sdist": SourceDistribution})
