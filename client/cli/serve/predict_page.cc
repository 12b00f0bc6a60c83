#include "client/cli/serve/predict_page.h"

namespace dslide::cli {
namespace {

constexpr char kPage[] = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>dslide serve</title>
<link rel="stylesheet" href="/page.css">
</head>
<body>
<h1>dslide serve</h1>
<p id="model" role="status">Asking for the model ...</p>
<form id="form">
<label for="text">Text</label>
<textarea id="text" rows="3" autofocus></textarea>
<div class="row">
<label>Labels <input id="top_k" type="number" min="1" max="1024" value="10"></label>
<label>Mode <select id="mode"></select></label>
<button type="submit">Predict</button>
</div>
</form>
<p id="summary" role="status"></p>
<table id="labels" hidden>
<thead><tr><th scope="col">Label</th><th scope="col">Score</th></tr></thead>
<tbody></tbody>
</table>
<script src="/page.js"></script>
<noscript>This page needs its script. The same by hand: POST /v1/predict.</noscript>
</body>
</html>
)html";

constexpr char kStyle[] = R"css(
:root { color-scheme: light dark; font-family: system-ui, sans-serif; }
body { margin: 0 auto; max-width: 44rem; padding: 1rem; line-height: 1.4; }
h1 { font-size: 1.3rem; }
textarea { box-sizing: border-box; width: 100%; font: inherit; padding: .5rem; }
.row { display: flex; flex-wrap: wrap; gap: .75rem; align-items: center; margin-top: .5rem; }
input, select, button { font: inherit; padding: .35rem .6rem; }
input[type=number] { width: 5rem; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; }
th, td { padding: .3rem .4rem; border-bottom: 1px solid #8884; overflow-wrap: anywhere; }
th:last-child, td:last-child { text-align: right; font-variant-numeric: tabular-nums; }
td .bar { display: block; height: 3px; background: #0072b2; }
.error { border-left: 4px solid #d55e00; padding-left: .5rem; }
)css";

constexpr char kScript[] = R"js("use strict";
const at = (id) => document.getElementById(id);
const names = {PREDICT_MODE_EXACT: "exact", PREDICT_MODE_HASHED: "hashed",
               PREDICT_MODE_NEIGHBOURS: "neighbours"};
const count = (n) => Number(n).toLocaleString("en");

function say(place, text, bad) {
  place.textContent = text;
  place.className = bad ? "error" : "";
}

async function ask(path, body) {
  const options = body && {method: "POST", body: JSON.stringify(body),
                           headers: {"Content-Type": "application/json"}};
  const reply = await fetch(path, options);
  const text = await reply.text();
  if (reply.ok) return JSON.parse(text);
  let why = text;
  try { why = JSON.parse(text).error.message; } catch (e) { /* a plain text */ }
  throw new Error(why);
}

function show(result, seconds) {
  const rows = at("labels").tBodies[0];
  rows.replaceChildren();
  const scores = result.labels.map((label) => label.score);
  const most = Math.max(...scores), least = Math.min(...scores);
  for (const label of result.labels) {
    const row = rows.insertRow();
    const name = row.insertCell();
    name.textContent = label.name || "label " + label.id;
    const bar = document.createElement("span");
    bar.className = "bar";
    bar.style.width = (most > least ? 5 + 95 * (label.score - least) / (most - least) : 100) + "%";
    name.append(bar);
    row.insertCell().textContent = label.score.toFixed(3);
  }
  at("labels").hidden = result.labels.length === 0;
  const unknown = result.unknown.length ? " Not known: " + result.unknown.join(", ") + "." : "";
  say(at("summary"), result.labels.length
    ? count(result.scored_rows) + " rows scored (" + names[result.mode] + ") in " +
      (1000 * seconds).toFixed(1) + " ms." + unknown
    : "The model knows no word of this." + unknown, !result.labels.length);
}

at("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const start = performance.now();
  try {
    const answer = await ask("/v1/predict", {queries: [{text: at("text").value}],
                                             top_k: Number(at("top_k").value),
                                             mode: at("mode").value});
    show(answer.results[0], (performance.now() - start) / 1000);
  } catch (error) {
    at("labels").hidden = true;
    say(at("summary"), error.message, true);
  }
});
at("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    at("form").requestSubmit();
  }
});

ask("/v1/model").then((model) => {
  say(at("model"), model.model + ": " + count(model.num_labels) + " labels, " +
      count(model.num_features) + " features. dslide " + model.version +
      (model.has_feature_names ? "" : ". Its features have no names: texts say nothing to it."),
      !model.has_feature_names);
  for (const mode of model.modes) at("mode").add(new Option(names[mode], mode));
}).catch((error) => say(at("model"), error.message, true));
)js";

}  // namespace

std::optional<HttpReply> PredictPage(absl::string_view path) {
  HttpReply reply;
  if (path == "/") {
    reply = {.type = "text/html; charset=utf-8", .body = kPage};
  } else if (path == "/page.css") {
    reply = {.type = "text/css; charset=utf-8", .body = kStyle};
  } else if (path == "/page.js") {
    reply = {.type = "text/javascript; charset=utf-8", .body = kScript};
  } else {
    return std::nullopt;
  }
  reply.headers.emplace_back("Content-Security-Policy",
                             "default-src 'none'; style-src 'self'; "
                             "script-src 'self'; connect-src 'self'; form-action 'none'; "
                             "frame-ancestors 'none'; base-uri 'none'");
  return reply;
}

}  // namespace dslide::cli
