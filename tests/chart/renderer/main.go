// chart-renderer renders the project's chart where there is no helm. It understands the arguments of
// `helm template` that the tests use, and renders with the same template language, function library
// and schema validator as Helm. It is for tests: no dependencies, no hooks, no cluster.
//
//	chart-renderer template NAME CHART [-n NAMESPACE] [-f VALUES]... [--set A.B=C]...
//	    [--api-versions GROUP/VERSION]...
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

type options struct {
	release, chart, namespace     string
	valueFiles, sets, apiVersions []string
}

func parse(arguments []string) (options, error) {
	result := options{namespace: "default"}
	lists := map[string]*[]string{
		"-f": &result.valueFiles, "--set": &result.sets, "--api-versions": &result.apiVersions,
	}
	words := map[string]*string{"-n": &result.namespace}
	var places []string
	for i := 0; i < len(arguments); i++ {
		word := arguments[i]
		list, isList := lists[word]
		single, isWord := words[word]
		switch {
		case isList || isWord:
			i++
			if i == len(arguments) {
				return result, fmt.Errorf("%s needs a value", word)
			}
			if isList {
				*list = append(*list, arguments[i])
			} else {
				*single = arguments[i]
			}
		case strings.HasPrefix(word, "-"):
			return result, fmt.Errorf("unknown flag %s", word)
		default:
			places = append(places, word)
		}
	}
	if len(places) != 3 || places[0] != "template" {
		return result, fmt.Errorf("usage: chart-renderer template NAME CHART [flags]")
	}
	result.release, result.chart = places[1], filepath.Clean(places[2])
	return result, nil
}

func run(arguments []string) error {
	opts, err := parse(arguments)
	if err != nil {
		return err
	}
	values, err := loadValues(opts)
	if err != nil {
		return err
	}
	if err := checkSchema(opts.chart, values); err != nil {
		return err
	}
	documents, err := render(opts, values)
	if err != nil {
		return err
	}
	for _, document := range documents {
		fmt.Printf("---\n# Source: %s\n%s\n", document.source, document.text)
	}
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
