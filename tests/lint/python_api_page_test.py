"""docs/start/python-api.md is what the docstrings say; `pytest --update` writes the page anew."""

import python_api_page


def test_the_page_is_what_the_docstrings_say(update: bool) -> None:
    made, there = python_api_page.page(), python_api_page.PAGE
    if update:
        there.write_text(made, encoding="utf-8")
    assert there.read_text(encoding="utf-8") == made, "stale; --update writes it anew"


def test_the_page_has_what_the_package_offers() -> None:
    text = python_api_page.page()
    for name in ("dslide.connect", "dslide.WideClassifier", "dslide.torch.WideEmbeddingBag"):
        assert f"### {name}\n" in text
    for call in ("top_k(table: str", "partial_fit(X: Any", "predict(*, texts"):
        assert call in text, call
