#!/usr/bin/env bash
# The scripts themselves: every task of ./run explains itself, wrong use is refused with status 2,
# and what counts the results counts failures. Builds and installs nothing.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
problems=0
problem() {
  printf '%s\n' "$*"
  problems=$((problems + 1))
}

# expect STATUS PATTERN COMMAND...: the command ends with STATUS and its output matches PATTERN.
expect() {
  local wanted="$1" pattern="$2" status=0 output
  shift 2
  output="$("$@" 2>&1 </dev/null)" || status=$?
  [[ $status == "$wanted" ]] || problem "$*: status $status instead of $wanted"
  grep -q -E -- "$pattern" <<<"$output" || problem "$*: no /$pattern/ in its output: $output"
}

# It finds tasks and does nothing itself.
[[ $(wc -l <run) -le 150 ]] || problem "run: $(wc -l <run) lines, more than 150: what is a task's?"
listed="$(./run help)"
for script in tools/*/task.sh; do
  command="$(basename "$(dirname "$script")")"
  expect 0 "^usage: ./run $command" ./run "$command" --help
  expect 0 "^  $command +[A-Z].*\.$" echo "$listed"
done
expect 0 '^usage: ./run' ./run
expect 2 "unknown command 'tarin'" ./run tarin
expect 2 "unknown argument 'quik'" ./run test quik
expect 2 "takes 'json', not 'xml'" ./run test -o xml
expect 2 "unknown check 'tydi'" ./run lint tydi
expect 2 "unknown command 'common'" ./run common
expect 2 "unknown command '../run'" ./run ../run
expect 2 "unknown part 'fual'" ./run nightly fual
expect 2 'only needs a part of a name' ./run test --only
expect 2 "seconds is 'x'" ./run fuzz x
expect 2 "unknown argument 'quik'" ./run fault quik
expect 2 "takes 'json', not 'xml'" ./run fault quick -o xml
expect 2 "seed is 'x'" ./run fault quick --seed x
expect 2 "bin-dir needs a value" ./run fault --bin-dir
expect 2 "unknown argument '--updaet'" ./run chart --updaet
expect 2 "takes 'json', not 'xml'" ./run chart -o xml
expect 2 "bin-dir needs a value" ./run chart --bin-dir
expect 2 "unknown argument 'quik'" ./run observability quik
expect 2 "takes 'json', not 'xml'" ./run observability -o xml
expect 2 "unknown benchmark 'trian'" ./run bench trian
expect 2 "takes 'json', not 'xml'" ./run bench train -o xml
expect 2 "unknown argument '--stesp'" ./run bench all --stesp
expect 0 '^usage: ./run bench' ./run bench serve --help
expect 2 "unrecognized arguments: --wirte" ./run times --wirte
expect 2 "invalid choice: 'xml'" ./run behaviours -o xml
expect 2 "unknown argument '--regsitry'" ./run release --regsitry a.b/c
expect 2 'release: --key needs a value' ./run release --key
expect 2 "grpc is 'mine'" ./run release --grpc mine
expect 2 'has programs of this machine' ./run release --grpc experimental --bin-dir build/bin
expect 2 'epochs is 2' ./run compose --epochs 2
expect 2 'belong together' ./run compose --image x:1
expect 0 '^LSAN_OPTIONS=suppressions=/.*/tests/leaks.txt:' \
  /usr/bin/python3 tools/common/preset_environment.py asan
expect 2 '^usage: helm.sh' tools/helm/helm.sh
expect 1 '^$' tools/helm/helm.sh --find /nonexistent
expect 2 '^usage: programs.sh' tools/kubernetes/programs.sh
expect 1 '^$' tools/kubernetes/programs.sh --find /nonexistent
expect 2 '^usage: operators.sh' tools/kubernetes/operators.sh
expect 1 '^$' tools/kubernetes/operators.sh --find /nonexistent
expect 2 "unknown argument 'smok'" ./run kubernetes smok
expect 2 "nodes needs a value" ./run kubernetes --nodes
expect 2 "only is for operators" ./run kubernetes readme --only kueue
expect 2 "readme has one node" ./run kubernetes readme --nodes 2
expect 2 '^usage: install.sh' tools/kubernetes-definitions/install.sh
expect 0 '^usage: ' tests/fuzz/run_fuzzers.sh --help
expect 2 'no such folder' tests/fuzz/run_fuzzers.sh --bin-dir /nonexistent

# A target that crashes and one that is not built are failures; one that ends well is not.
cat >"$scratch/good_fuzz" <<'TEXT'
#!/bin/sh
echo 'stat::number_of_executed_units: 7'
TEXT
printf '#!/bin/sh\nexit 77\n' >"$scratch/bad_fuzz"
chmod +x "$scratch/good_fuzz" "$scratch/bad_fuzz"
run_fuzzers=(tests/fuzz/run_fuzzers.sh --bin-dir "$scratch" --seconds 1 --work-dir "$scratch/work")
expect 0 '^passed good_fuzz$' "${run_fuzzers[@]}" good_fuzz
expect 1 '^failed bad_fuzz$' "${run_fuzzers[@]}"
expect 1 '^failed absent_fuzz$' "${run_fuzzers[@]}" absent_fuzz

cat >"$scratch/report.xml" <<'TEXT'
<testsuite tests="5">
  <testcase name="a" status="run"/>
  <testcase name="b" status="fail"><failure message=""/></testcase>
  <testcase name="c" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>
  <testcase name="d" status="notrun"><skipped message="Unable to find executable"/></testcase>
  <testcase name="e" status="disabled"/>
  <testcase name="program.0" status="fail"/>
  <testcase name="leaks.0" status="fail"/>
</testsuite>
TEXT
# The cases of a program are counted instead of it; where all of them passed, its own failure is.
cat >"$scratch/program.0.xml" <<'TEXT'
<testsuites><testsuite>
  <testcase classname="A" name="Passes" status="run"/>
  <testcase classname="A" name="Skips" status="run"><skipped message="x"><![CDATA[a.cc:1
no data]]></skipped></testcase>
  <testcase classname="A" name="Fails" status="run"><failure message="a.cc:7&#10;2 is not 3"/></testcase>
</testsuite></testsuites>
TEXT
printf '<testsuites><testcase classname="A" name="B"/></testsuites>' >"$scratch/leaks.0.xml"
counted=(/usr/bin/python3 tools/common/junit_counts.py "$scratch/report.xml" "$scratch")
expect 0 '^counts 3 4 3$' "${counted[@]}"
expect 0 '^failed A.Fails: a.cc:7 [|] 2 is not 3$' "${counted[@]}"
expect 0 '^skipped A.Skips: no data$' "${counted[@]}"
expect 0 '^failed leaks.0$' "${counted[@]}"

if command -v shellcheck >/dev/null; then
  mapfile -t scripts < <(git ls-files -co --exclude-standard 2>/dev/null | grep -E '\.sh$|^run$|^\.ci/run$')
  shellcheck "${scripts[@]}" || problem 'shellcheck has findings'
else
  echo 'shellcheck is not installed: the style of the scripts is not checked'
fi

printf 'run: %d problem(s)\n' "$problems"
[[ $problems == 0 ]]
