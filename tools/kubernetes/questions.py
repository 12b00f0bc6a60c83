"""Asks a server of predictions what packages descriptions need, one text after the other.

usage: questions.py URL

Prints one JSON object: `seconds` of each question, the `answers`, each [[name, score], ...], and
the text of each. Exits with an error where an answer is none.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
import urllib.parse

LABELS = 5
_FORMS = ("{} written in Python", "library for a {} in C++", "graphical {} for GNOME",
          "simple {} for the command line", "{} with plugins, development files")
_SUBJECTS = ("web server", "image viewer", "text editor", "game of chess", "mail client",
             "music player", "parser of XML", "database", "network monitor", "spell checker")
TEXTS = tuple(form.format(subject) for form in _FORMS for subject in _SUBJECTS)


def ask(connection: http.client.HTTPConnection, text: str) -> list[tuple[str, float]]:
    """The names of the best labels, each with its score."""
    body = json.dumps({"queries": [{"text": text}], "top_k": LABELS})
    connection.request("POST", "/v1/predict", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise ValueError(f"{text}: {response.status} {content.decode(errors='replace')}")
    labels = [(str(label["name"]), float(label["score"]))
              for label in json.loads(content)["results"][0]["labels"]]
    if len(labels) != LABELS or not all(name for name, _ in labels):
        raise ValueError(f"{text}: want {LABELS} labels with names, not {labels}")
    return labels


def main() -> None:
    where = urllib.parse.urlsplit(sys.argv[1])
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
    answers, seconds = [], []
    for text in TEXTS:
        began = time.monotonic()
        try:
            answers.append(ask(connection, text))
        except (ValueError, KeyError, OSError) as error:
            sys.exit(f"questions: {error!r}")
        seconds.append(time.monotonic() - began)
    print(json.dumps({"texts": TEXTS, "answers": answers, "seconds": seconds}))


if __name__ == "__main__":
    main()
