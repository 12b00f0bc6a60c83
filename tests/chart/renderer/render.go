package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type document struct{ source, text string }

// chartFiles is what templates see as .Files.
type chartFiles struct{ root string }

func (files chartFiles) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(files.root, name))
	if err != nil {
		return ""
	}
	return string(text)
}

func (files chartFiles) Glob(pattern string) map[string][]byte {
	found := map[string][]byte{}
	paths, _ := filepath.Glob(filepath.Join(files.root, pattern))
	for _, name := range paths {
		if text, err := os.ReadFile(name); err == nil {
			relative, _ := filepath.Rel(files.root, name)
			found[filepath.ToSlash(relative)] = text
		}
	}
	return found
}

// versionSet is what templates see as .Capabilities.APIVersions.
type versionSet []string

func (set versionSet) Has(wanted string) bool {
	for _, version := range set {
		if version == wanted {
			return true
		}
	}
	return false
}

func withoutNoValue(text string) string { return strings.ReplaceAll(text, "<no value>", "") }

// functions are sprig's and those that Helm adds; `set` is the template set that they render from.
func functions(set *template.Template) template.FuncMap {
	result := sprig.TxtFuncMap()
	// A chart must not depend on the machine that renders it.
	delete(result, "env")
	delete(result, "expandenv")
	run := func(from *template.Template, name string, data interface{}) (string, error) {
		var out bytes.Buffer
		err := from.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	result["include"] = func(name string, data interface{}) (string, error) { return run(set, name, data) }
	result["tpl"] = func(text string, data interface{}) (string, error) {
		copied, err := set.Clone()
		if err != nil {
			return "", err
		}
		if _, err = copied.New("tpl").Parse(text); err != nil {
			return "", err
		}
		out, err := run(copied, "tpl", data)
		return withoutNoValue(out), err
	}
	result["toYaml"] = func(value interface{}) string {
		text, _ := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n")
	}
	result["fromYaml"] = func(text string) object {
		value := object{}
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			value["Error"] = err.Error()
		}
		return value
	}
	result["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, fmt.Errorf("%s", message)
		}
		return value, nil
	}
	// As with helm, which asks no cluster while it only renders.
	result["lookup"] = func(version, kind, namespace, name string) object { return object{} }
	result["fail"] = func(message string) (string, error) { return "", fmt.Errorf("%s", message) }
	return result
}

// parseTemplates reads templates/ into one set; names begin with that of the chart.
func parseTemplates(opts options, chartName string) (*template.Template, []string, error) {
	set := template.New("").Option("missingkey=zero")
	set.Funcs(functions(set))
	var names []string
	err := filepath.WalkDir(filepath.Join(opts.chart, "templates"), func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		relative, _ := filepath.Rel(opts.chart, file)
		name := path.Join(chartName, filepath.ToSlash(relative))
		names = append(names, name)
		_, err = set.New(name).Parse(string(text))
		return err
	})
	sort.Strings(names)
	return set, names, err
}

var separator = regexp.MustCompile(`(?m)^---[ \t]*$`)

// documentsOf splits a rendered file; each part must be YAML without repeated keys.
func documentsOf(source, text string) ([]document, error) {
	var found []document
	for _, part := range separator.Split(text, -1) {
		var content interface{}
		if err := yaml.UnmarshalStrict([]byte(part), &content); err != nil {
			return nil, fmt.Errorf("%s: %v\n%s", source, err, part)
		}
		if content != nil {
			found = append(found, document{source, strings.Trim(part, "\n")})
		}
	}
	return found, nil
}

func render(opts options, values object) ([]document, error) {
	var result []document
	chart, err := readYaml(filepath.Join(opts.chart, "Chart.yaml"))
	if err != nil {
		return result, err
	}
	for key, value := range chart {
		chart[strings.ToUpper(key[:1])+key[1:]] = value
	}
	name := chart["Name"].(string)
	set, files, err := parseTemplates(opts, name)
	if err != nil {
		return result, err
	}
	for _, file := range files {
		if strings.HasPrefix(path.Base(file), "_") || path.Base(file) == "NOTES.txt" {
			continue
		}
		data := object{
			"Values": values, "Chart": chart, "Files": chartFiles{opts.chart},
			"Release":      object{"Name": opts.release, "Namespace": opts.namespace, "Service": "Helm", "Revision": 1, "IsInstall": true, "IsUpgrade": false},
			"Capabilities": object{"APIVersions": versionSet(opts.apiVersions), "KubeVersion": object{"Version": "v1.29.0", "Major": "1", "Minor": "29"}},
			"Template":     object{"Name": file, "BasePath": path.Join(name, "templates")},
		}
		var out bytes.Buffer
		if err := set.ExecuteTemplate(&out, file, data); err != nil {
			return result, fmt.Errorf("execution error: %v", err)
		}
		text := withoutNoValue(out.String())
		documents, err := documentsOf(file, text)
		if err != nil {
			return result, err
		}
		result = append(result, documents...)
	}
	return result, nil
}
