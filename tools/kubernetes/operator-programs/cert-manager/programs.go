//go:build programs

// Package programs names what is built of this module.
package programs

import _ "github.com/cert-manager/cert-manager/programs/cert-manager"
