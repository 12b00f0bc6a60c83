//go:build programs

// Package programs names what is built of this module.
package programs

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
)
