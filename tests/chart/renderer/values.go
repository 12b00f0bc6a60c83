package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/xeipuuv/gojsonschema"
	"sigs.k8s.io/yaml"
)

type object = map[string]interface{}

func readYaml(path string) (object, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	result := object{}
	if err := yaml.UnmarshalStrict(text, &result); err != nil {
		return nil, fmt.Errorf("%s: %v", path, err)
	}
	return result, nil
}

// overlay lays `upper` over `lower`: objects merge, anything else replaces. A null in a user's values
// takes the default away.
func overlay(lower, upper object) object {
	for key, value := range upper {
		below, isObject := lower[key].(object)
		above, wasObject := value.(object)
		switch {
		case value == nil:
			delete(lower, key)
		case isObject && wasObject:
			lower[key] = overlay(below, above)
		default:
			lower[key] = value
		}
	}
	return lower
}

// stack merges sources of the user's values, in which nulls are kept until the chart's defaults are below.
func stack(lower, upper object) object {
	for key, value := range upper {
		below, isObject := lower[key].(object)
		above, wasObject := value.(object)
		if isObject && wasObject {
			lower[key] = stack(below, above)
		} else {
			lower[key] = value
		}
	}
	return lower
}

// assignment turns "a.b=c" into {a: {b: c}}; c is read as YAML, "\." is a dot inside a name.
func assignment(text string) (object, error) {
	path, word, found := strings.Cut(text, "=")
	if !found {
		return nil, fmt.Errorf("--set %s: give NAME=VALUE", text)
	}
	var value interface{}
	if err := yaml.Unmarshal([]byte(word), &value); err != nil {
		return nil, fmt.Errorf("--set %s: %v", text, err)
	}
	names := strings.Split(strings.ReplaceAll(path, `\.`, "\x00"), ".")
	for i := len(names) - 1; i >= 0; i-- {
		value = object{strings.ReplaceAll(names[i], "\x00", "."): value}
	}
	return value.(object), nil
}

func loadValues(opts options) (object, error) {
	user := object{}
	for _, path := range opts.valueFiles {
		layer, err := readYaml(path)
		if err != nil {
			return nil, err
		}
		user = stack(user, layer)
	}
	for _, text := range opts.sets {
		layer, err := assignment(text)
		if err != nil {
			return nil, err
		}
		user = stack(user, layer)
	}
	values, err := readYaml(filepath.Join(opts.chart, "values.yaml"))
	if err != nil {
		return nil, err
	}
	return overlay(values, user), nil
}

func checkSchema(chart string, values object) error {
	schema, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		return err
	}
	result, err := gojsonschema.Validate(gojsonschema.NewBytesLoader(schema), gojsonschema.NewGoLoader(values))
	if err != nil {
		return err
	}
	var lines []string
	for _, problem := range result.Errors() {
		lines = append(lines, "- "+problem.String())
	}
	if len(lines) == 0 {
		return nil
	}
	sort.Strings(lines)
	return fmt.Errorf("values don't meet the schema of the chart:\n%s", strings.Join(lines, "\n"))
}
