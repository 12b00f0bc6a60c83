package dslide

import (
	"context"

	v1 "dslide.dev/gen/dslide/v1"
)

// A Predictor is a client of `dslide serve`. Goroutines may share it.
type Predictor struct {
	options Options
	peer    *peer
	client  v1.PredictServiceClient
}

// DialPredictor connects to a `dslide serve` at "host:port" or "unix:PATH", when it is first asked.
func DialPredictor(address string, options *Options) (*Predictor, error) {
	complete, err := options.complete()
	if err != nil {
		return nil, err
	}
	p := &Predictor{options: complete}
	p.peer, err = newPeer(&p.options, address, "dslide serve",
		"start dslide serve --listen "+address+", or name the address of one that runs")
	if err != nil {
		return nil, err
	}
	p.client = v1.NewPredictServiceClient(p.peer.conn)
	return p, nil
}

// Close closes the connection.
func (p *Predictor) Close() error { return p.peer.conn.Close() }

// Model returns what is served, and which inputs and modes it takes.
func (p *Predictor) Model(ctx context.Context) (*v1.GetModelResponse, error) {
	return call(ctx, p.peer, "GetModel", p.client.GetModel, &v1.GetModelRequest{})
}

// Text is a query by words, for models whose features have names.
func Text(text string) *v1.PredictQuery {
	return &v1.PredictQuery{Input: &v1.PredictQuery_Text{Text: text}}
}

// Features is a query by features, as the training data has them; values nil: all 1.
func Features(ids []uint32, values []float32) *v1.PredictQuery {
	return &v1.PredictQuery{Input: &v1.PredictQuery_Features{Features: &v1.SparseFeatures{Ids: ids, Values: values}}}
}

// NamedFeatures is a query by the names of features; values nil: all 1.
func NamedFeatures(names []string, values []float32) *v1.PredictQuery {
	return &v1.PredictQuery{Input: &v1.PredictQuery_Features{Features: &v1.SparseFeatures{Names: names, Values: values}}}
}

// Hidden is a query by the input of the head, for models that have a head and no memory.
func Hidden(values []float32) *v1.PredictQuery {
	return &v1.PredictQuery{Input: &v1.PredictQuery_Hidden{Hidden: &v1.HiddenVector{Values: values}}}
}

// PredictOptions say what is answered. nil: what the server is set to.
type PredictOptions struct {
	// Labels of each query, [1, 1024]; 0: 10.
	TopK int
	Mode v1.PredictMode
}

// Predict returns the best labels of each query, 1 to 256 of them, in their order.
func (p *Predictor) Predict(
	ctx context.Context, queries []*v1.PredictQuery, options *PredictOptions,
) ([]*v1.PredictResult, error) {
	if options == nil {
		options = &PredictOptions{}
	}
	answer, err := call(ctx, p.peer, "Predict", p.client.Predict,
		&v1.PredictRequest{Queries: queries, TopK: uint32(options.TopK), Mode: options.Mode})
	return answer.GetResults(), err
}
