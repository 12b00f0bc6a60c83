package data

import (
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	set, err := Parse([]byte("3 5 9\r\n7,2 4:1.5 0:-2\r\n 1:3e-1\r\n8\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	expected := []Point{
		{Features: []uint32{0, 4}, Values: []float32{-2, 1.5}, Labels: []uint32{2, 7}},
		{Features: []uint32{1}, Values: []float32{0.3}},
		{Labels: []uint32{8}},
	}
	if !reflect.DeepEqual(set.Points, expected) || set.NumFeatures != 5 || set.NumLabels != 9 {
		t.Errorf("%+v", set)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, said := range map[string]string{
		"":                 `1: found "", expected: points features labels`,
		"1 2":              `1: found "1 2", expected: points`,
		"2 5 9\n1 1:1":     "2: found 1 points, expected 2",
		"1 5 9\n9 1:1":     `2: found "9", expected a label id in [0, 9)`,
		"1 5 9\n1 5:1":     `2: found "5", expected feature:value with a feature id in [0, 5)`,
		"1 5 9\n1 2":       `2: found "", expected a finite decimal number`,
		"1 5 9\n1 2:nan":   `2: found "nan", expected a finite`,
		"1 5 9\n1 2:1 2:1": "2: the point has id 2 twice",
		"2 5 9\n1 2:1\n\n": "2: found 1 points, expected 2",
		"2 5 9\n\n1 2:1":   "2: found nothing, expected a point",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), said) {
			t.Errorf("%q: %v, expected %q", text, err, said)
		}
	}
}
