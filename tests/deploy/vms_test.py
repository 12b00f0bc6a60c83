"""What render.py makes of inventories: golden files, settings that the programs take, refusals.

Golden files are made anew by: render.py INVENTORY --output tests/deploy/golden/vms [--systemd]
"""

import pathlib
import stat
from collections.abc import Callable
from typing import Any

import cases
import pytest
import render

GOLDEN = pathlib.Path(__file__).with_name("golden") / "vms"
EXAMPLE = cases.read("deploy/compose/vms/inventory.example.toml")
PLAIN = EXAMPLE.replace("tls = true", "tls = false").replace("crl = true", "crl = false")
SMALL = """
[[machine]]
name = "one"
address = "fd00::1"
coordinator = true
shards = [0, 1, 2]
trainer = "/data"
"""
ROLES = ("coordinator", "shard", "trainer")
Render = Callable[..., dict[str, str]]


@pytest.fixture
def rendered(tmp_path: pathlib.Path) -> Render:
    """rendered(inventory, options): {name: text} of what is written below tmp_path."""

    def call(text: str, **options: Any) -> dict[str, str]:
        names = render.render(text, tmp_path, **options)
        return {name: (tmp_path / name).read_text(encoding="utf-8") for name in names}

    return call


def services_of(made: dict[str, str]) -> list[tuple[str, Any]]:
    return [item for file in made.values() for item in cases.services(file).items()]


def program_of(name: str) -> str:
    return "dslide-shard" if "shard" in name else "dslide-coordinator"


def test_the_example_is_as_agreed(rendered: Render) -> None:
    made = rendered(EXAMPLE) | rendered(EXAMPLE, systemd=True)
    golden = {path.relative_to(GOLDEN).as_posix(): path.read_text(encoding="utf-8")
              for path in GOLDEN.rglob("*") if path.is_file()}
    assert made == golden


@pytest.mark.parametrize("text", [EXAMPLE, PLAIN, SMALL])
def test_files_are_those_of_compose(rendered: Render, text: str) -> None:
    for name, service in services_of(rendered(text)):
        assert service["read_only"] is True, name
        assert (service["cap_drop"], service["user"]) == (["ALL"], cases.USER), name
        if "healthcheck" in service:
            assert service["healthcheck"]["test"] == ["CMD", "/usr/bin/dslide", "health"], name


def test_stopping_leaves_time_for_the_drain(rendered: Render) -> None:
    for name, service in services_of(rendered(EXAMPLE)):
        drain = cases.drain_seconds(program_of(name))
        assert cases.seconds(service["stop_grace_period"]) >= 4 * drain, name


@pytest.mark.parametrize(
    "text", [PLAIN, SMALL.replace("[[machine]]", "[cluster]\ntls = false\n[[machine]]")])
def test_the_programs_take_the_settings(rendered: Render, text: str) -> None:
    made = rendered(text, systemd=True)
    assert made
    for name, settings in made.items():
        cases.assert_accepted(program_of(pathlib.Path(name).name), settings)


def test_the_programs_take_the_settings_of_tls(rendered: Render, tmp_path: pathlib.Path) -> None:
    certs = cases.certificates(tmp_path / "certs")
    made = rendered(EXAMPLE, certificates=certs, systemd=True)
    assert len(made) == 4
    for name, settings in made.items():
        program, machine = program_of(pathlib.Path(name).name), (tmp_path / name).parent
        assert 'tls-crl-dir = "/etc/dslide/crl"\n' in settings
        here = settings.replace("/etc/dslide/", f"{machine}/").replace("/var/lib", str(machine))
        cases.assert_accepted(program, here)
        cases.assert_no_start_without_lists(
            program, here.replace('/crl"', '/none"'), f"{machine}/none")


def test_ports_of_a_machine_differ(rendered: Render) -> None:
    published = [port.rpartition(":")[0] for _, service in services_of(rendered(SMALL))
                 for port in service["ports"]]
    assert len(published) == len(set(published))
    assert "[fd00::1]:7030" in published


def test_plaintext_is_named_insecure(rendered: Render) -> None:
    for name, service in services_of(rendered(PLAIN)):
        if name == "trainer":
            assert service["entrypoint"] == ["/usr/bin/dslide", "--insecure"]
        else:
            assert service["environment"]["DSLIDE_INSECURE"] == "true"
        assert "DSLIDE_TLS_CERT" not in service["environment"]
    assert "insecure" not in "".join(rendered(EXAMPLE).values()).lower()


def make_certificates(folder: pathlib.Path) -> pathlib.Path:
    """Files that have the names of certificates and keys."""
    (folder / "crl").mkdir(parents=True)
    for name in ("ca.crt", *(f"{role}.{end}" for role in ROLES for end in ("crt", "key"))):
        (folder / name).write_text(f"this is {name}")
    return folder


def test_certificates_are_laid_out(rendered: Render, tmp_path: pathlib.Path) -> None:
    source = make_certificates(tmp_path / "certs")
    for _ in range(2):  # A second time replaces.
        rendered(EXAMPLE, certificates=source)
    key = tmp_path / "vm-a/tls/shard-0/tls.key"
    assert key.read_text() == "this is shard.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o400
    assert (tmp_path / "vm-d/tls/trainer/ca.crt").read_text() == "this is ca.crt"
    assert list((tmp_path / "vm-a/crl").iterdir()) == []
    (source / "shard.key").unlink()
    with pytest.raises(render.InventoryError, match="no shard.key"):
        rendered(EXAMPLE, certificates=source)


def test_everybody_looks_into_the_machines_lists(rendered: Render) -> None:
    for name, service in services_of(rendered(EXAMPLE)):
        assert service["environment"]["DSLIDE_TLS_CRL_DIR"] == "/etc/dslide/crl", name
        assert "./crl:/etc/dslide/crl:ro" in service["volumes"], name
    for text in (PLAIN, SMALL):
        assert "crl" not in "".join(rendered(text).values()).lower()


def test_lists_are_added_and_not_replaced(rendered: Render, tmp_path: pathlib.Path) -> None:
    source = make_certificates(tmp_path / "certs")
    for number in (0, 1):
        (source / f"crl/01234567.r{number}").write_text(f"list {number}")
        rendered(EXAMPLE, certificates=source)
        for machine in ("vm-a", "vm-d"):
            made = sorted((tmp_path / machine / "crl").iterdir())
            assert [path.read_text() for path in made] == ["list 0", "list 1"][: number + 1]
            assert stat.S_IMODE(made[0].stat().st_mode) == 0o444
    (source / "crl/01234567.r0").write_text("another")
    with pytest.raises(render.InventoryError, match="01234567.r0 is another list"):
        rendered(EXAMPLE, certificates=source)


@pytest.mark.parametrize(("text", "message"), [
    ("[[machine", "not TOML"),
    ("[machines]\n", "unknown table 'machines'"),
    (SMALL + "shard = 1\n", "unknown field 'shard'"),
    (SMALL.replace("[0, 1, 2]", '"0"'), "shards is '0'"),
    (SMALL.replace("one", "../one"), "'../one'"),
    (SMALL.replace("fd00::1", "host.example"), "host.example"),
    (SMALL.replace("coordinator = true", ""), "it is on 0"),
    (SMALL + SMALL.replace("one", "two").replace("::1", "::2"), "it is on 2"),
    (SMALL.replace("[0, 1, 2]", "[0, 2]"), r"\[0, 2\]"),
    (SMALL.replace("[0, 1, 2]", "[]"), r"are \[\]"),
    (SMALL + '[[machine]]\nname = "one"\naddress = "fd00::2"\n', "'one'"),
    (SMALL + '[[machine]]\nname = "two"\naddress = "fd00::1"\n', "fd00::1"),
    ('[cluster]\ndurability = "yes"\n' + SMALL, "durability is 'yes'"),
    ("[cluster]\ntls = false\ncrl = true\n" + SMALL, "crl = true with tls = false"),
    (SMALL.replace('"/data"', '"data"'), "trainer is 'data'"),
])
def test_what_does_not_hold_together_is_refused_with_its_name(text: str, message: str) -> None:
    with pytest.raises(render.InventoryError, match=message):
        render.read_inventory(text)


def test_a_machine_without_work() -> None:
    text = SMALL + '[[machine]]\nname = "idle"\naddress = "fd00::2"\n'
    cluster, machines = render.read_inventory(text)
    with pytest.raises(render.InventoryError, match="'idle'"):
        render.compose_file(cluster, machines, machines[1])
