"""The commands of README.md that a scenario runs, and what is read of them; without a cluster."""

import pathlib

import pytest
import small_node
import stranger
from addresses import REGISTRY
from cluster import ClusterError


def test_readme_has_three_commands_for_an_empty_cluster() -> None:
    pull, install, forward = stranger.commands_of_readme()
    assert f"oci://{REGISTRY}/" in pull
    assert "--wait --wait-for-jobs" in install
    assert "7031" in forward


@pytest.mark.parametrize("text", [
    "no commands",
    "```sh\nhelm pull oci://x/y/charts/dslide\nhelm install dslide ./dslide\n```\n",
    "```sh\nhelm pull oci://x/y/charts/dslide\nkubectl port-forward x 1\nhelm install y\n```\n",
])
def test_a_readme_without_them_is_refused(
        text: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stranger, "ROOT", tmp_path)
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    with pytest.raises(ClusterError, match=r"README\.md has no block of the three commands"):
        stranger.commands_of_readme()


def test_the_release_goes_where_readme_pulls_it_from() -> None:
    assert stranger.prefix_of("helm pull oci://host/some/place/charts/dslide --untar") == (
        "some/place")
    with pytest.raises(ClusterError, match="no place of charts"):
        stranger.prefix_of("helm pull dslide")


@pytest.mark.parametrize(("quantity", "expected"), [
    ("16Ki", 16 << 10), ("3Mi", 3 << 20), ("4Gi", 4 << 30), ("12", 12)])
def test_quantities_of_kubernetes_are_bytes(quantity: str, expected: int) -> None:
    assert small_node.bytes_of(quantity) == expected
