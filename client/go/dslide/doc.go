// Package dslide is the Go client of a dslide cluster, whose servers hold the wide layers of
// networks: it reads, changes and ranks their rows, trains beside clients in other languages, and
// asks `dslide serve` for predictions.
//
//	cluster, err := dslide.Dial(ctx, "127.0.0.1:7000", nil)
//	model, err := cluster.Model(ctx, "my-model")
//	rows, err := model.Gather(ctx, "labels", []uint32{17, 4}, nil)
//	best, err := model.TopK(ctx, "labels", rows.Values, 5, dslide.Exact)
//
// Matrices are row-major: [rows, cols]. Goroutines may share a Cluster, a Model and a Predictor;
// Steps and Leases belong to one goroutine. Every call takes a context; one without a deadline gets
// Options.Timeout. What goes wrong is an *Error.
package dslide

// Version is that of the client. It speaks with clusters of the same minor version.
const Version = "0.2.0"
