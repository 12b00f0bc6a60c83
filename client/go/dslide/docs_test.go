package dslide_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"dslide.dev/dslide"
	v1 "dslide.dev/gen/dslide/v1"
	"dslide.dev/internal/testcluster"
)

var (
	snippet = regexp.MustCompile("(?s)```(go|sh)\n(.*?)```")
	// What the page's program may use.
	imports = map[string]string{"context.": `"context"`, "errors.": `"errors"`, "fmt.": `"fmt"`, "slices.": `"slices"`,
		"time.": `"time"`, "dslide.": `"dslide.dev/dslide"`, "v1.": `v1 "dslide.dev/gen/dslide/v1"`,
		"protojson.": `"google.golang.org/protobuf/encoding/protojson"`}
)

// The commands and the program of docs/start/client-go.md, as a user has them in a project of his own.
func TestThePage(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/start/client-go.md"))
	if err != nil {
		t.Fatal(err)
	}
	servers := testcluster.Start(t, testcluster.Options{Shards: 2})
	here := strings.NewReplacer("127.0.0.1:7000", servers.Address, "127.0.0.1:7030", serveNetwork(t, servers),
		"/path/to/dslide", root)
	var commands []string
	var body strings.Builder
	for _, found := range snippet.FindAllSubmatch(page, -1) {
		if text := here.Replace(string(found[2])); string(found[1]) == "sh" {
			commands = append(commands, text)
		} else {
			body.WriteString(text)
		}
	}
	if len(commands) != 2 || body.Len() == 0 {
		t.Fatalf("%d commands and %d bytes of Go are on the page", len(commands), body.Len())
	}
	project := t.TempDir()
	program := programOf(body.String())
	if err := os.WriteFile(filepath.Join(project, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	shell(t, project, commands[0])
	said := shell(t, project, "go run .")
	for _, expected := range []string{"2 table\n", "true 1\n", `UNKNOWN_MODEL the cluster has no model "unheard-of"; it has: network, table`,
		"coordinator at 127.0.0.1:1, GetClusterMap: "} {
		if !strings.Contains(said, expected) {
			t.Errorf("the page's program says %q, expected %q in it", said, expected)
		}
	}
	if said := shell(t, filepath.Join(root, "client/go"), commands[1]); !strings.Contains(said, `"best_p_at_1":0.`) {
		t.Errorf("the example says %q", said)
	}
}

// serveNetwork creates the model that the page creates, and serves it.
func serveNetwork(t *testing.T, servers *testcluster.Cluster) string {
	t.Helper()
	spec := &v1.ModelSpec{}
	err := protojson.Unmarshal([]byte(`{"name": "network", "tables": [
		{"name": "input", "rows": 101, "dim": 8, "bias_row": true},
		{"name": "labels", "role": "head", "rows": 1000, "dim": 8}]}`), spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := servers.Dial("trainer").CreateModel(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	address := servers.Serve("network")
	server, err := dslide.DialPredictor(address, servers.Options("reader"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := server.Model(t.Context()); err != nil { // it is ready
		t.Fatal(err)
	}
	return address
}

func programOf(body string) string {
	used := []string{`"context"`, `"log"`}
	for word, path := range imports {
		if word != "context." && regexp.MustCompile(`\b`+regexp.QuoteMeta(word)).MatchString(body) {
			used = append(used, path)
		}
	}
	return "package main\n\nimport (\n" + strings.Join(used, "\n") + "\n)\n\nfunc page(ctx context.Context) error {\n" +
		body + "\nreturn nil\n}\n\nfunc main() {\nif err := page(context.Background()); err != nil {\nlog.Fatal(err)\n}\n}\n"
}

// shell runs a command of the page in a folder and returns what it wrote to stdout.
func shell(t *testing.T, folder, command string) string {
	t.Helper()
	run := exec.CommandContext(t.Context(), "sh", "-e", "-c", command)
	var out, said bytes.Buffer
	run.Dir, run.Stdout, run.Stderr = folder, &out, &said
	if err := run.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", command, err, &out, &said)
	}
	return out.String()
}
