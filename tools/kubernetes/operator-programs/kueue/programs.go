//go:build programs

// Package programs names what is built of this module.
package programs

import _ "sigs.k8s.io/kueue/cmd/kueue"
