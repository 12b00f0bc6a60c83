package dslide

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "dslide.dev/gen/dslide/v1"
	"dslide.dev/hashing"
)

// A Model is a model of a cluster: its spec, and the rows of its tables.
type Model struct {
	cluster *Cluster
	spec    *v1.ModelSpec
}

// Spec returns what the model is, with every field. It must not be changed.
func (m *Model) Spec() *v1.ModelSpec { return m.spec }

// Model opens a model of the cluster. ErrNotFound names those that there are.
func (c *Cluster) Model(ctx context.Context, name string) (*Model, error) {
	c.mutex.Lock()
	spec := c.specs[name]
	c.mutex.Unlock()
	if spec != nil {
		return &Model{c, spec}, nil
	}
	known, err := c.ListModels(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(known))
	for _, spec := range known {
		if spec.GetName() == name {
			return c.openModel(ctx, spec)
		}
		names = append(names, spec.GetName())
	}
	there := "it has none: train one first"
	if len(names) > 0 {
		there = "it has: " + strings.Join(names, ", ")
	}
	return nil, &Error{Code: codes.NotFound, Reason: "UNKNOWN_MODEL",
		Message: fmt.Sprintf("the cluster has no model %q; %s", name, there)}
}

// CreateModel creates a model on all shards; an equal one that is there is left as it is. Every
// table has rows; fields that are left out have the defaults of the servers.
//
// ErrFailedPrecondition: a different one has the name.
func (c *Cluster) CreateModel(ctx context.Context, spec *v1.ModelSpec) (*Model, error) {
	_, err := call(ctx, c.coordinator, "RegisterModel", c.control.RegisterModel, &v1.RegisterModelRequest{Spec: spec})
	if err != nil {
		return nil, err
	}
	c.forgetModel(spec.GetName())
	model, err := c.Model(ctx, spec.GetName())
	if err != nil {
		return nil, err
	}
	model.spec = askedFor(model.spec, spec)
	return model, nil
}

func (c *Cluster) openModel(ctx context.Context, spec *v1.ModelSpec) (*Model, error) {
	if err := c.learnOwners(ctx, spec); err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.specs[spec.GetName()] = spec
	return &Model{c, spec}, nil
}

func (c *Cluster) forgetModel(name string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.specs, name)
}

// ListModels returns all models of the cluster, by name.
func (c *Cluster) ListModels(ctx context.Context) ([]*v1.ModelSpec, error) {
	var models []*v1.ModelSpec
	for request := (&v1.ListModelsRequest{}); ; {
		page, err := call(ctx, c.coordinator, "ListModels", c.control.ListModels, request)
		if err != nil {
			return nil, err
		}
		models = append(models, page.Models...)
		if page.NextPageToken == "" {
			return models, nil
		}
		request.PageToken = page.NextPageToken
	}
}

// DropModel drops a model and its rows, everywhere.
func (c *Cluster) DropModel(ctx context.Context, name string) error {
	c.forgetModel(name)
	_, err := call(ctx, c.coordinator, "UnregisterModel", c.control.UnregisterModel, &v1.UnregisterModelRequest{Model: name})
	return err
}

// Describe returns what each shard holds of the model, by ordinal. Digests cost a pass over all rows.
func (m *Model) Describe(ctx context.Context, digests bool) ([]*v1.DescribeModelResponse, error) {
	answers := make([]*v1.DescribeModelResponse, len(m.cluster.shards))
	timeout := m.cluster.options.Timeout
	if digests {
		timeout = longTimeout
	}
	request := &v1.DescribeModelRequest{Model: m.spec.GetName(), WithDigests: digests}
	err := m.cluster.eachShard(func(s *shard) error {
		return s.repeat(ctx, timeout, func(ctx context.Context) (err error) {
			answers[s.ordinal], err = once(ctx, s.peer, "DescribeModel", s.client.DescribeModel, request)
			return err
		})
	})
	return answers, err
}

// table returns a table of the model and the shard of each of its slots.
func (m *Model) table(name string) (*v1.TableSpec, []uint16, error) {
	names := make([]string, 0, len(m.spec.Tables))
	for _, table := range m.spec.Tables {
		if table.GetName() == name {
			return table, m.cluster.ownersOf(table), nil
		}
		names = append(names, table.GetName())
	}
	return nil, nil, &Error{Code: codes.InvalidArgument, Reason: "UNKNOWN_TABLE", Message: fmt.Sprintf(
		"model %q has no table %q; it has: %s", m.spec.GetName(), name, strings.Join(names, ", "))}
}

// hashedTable keeps the hash family of a head, which takes a while to make.
type hashedTable struct {
	spec   *v1.HashSpec
	family hashing.Family
}

// hashFamily returns how a head is hashed; nil: every row is active.
func (m *Model) hashFamily(table *v1.TableSpec) (hashing.Family, error) {
	if table.GetRole() != "head" || table.Head.GetMaxActive() == 0 {
		return nil, nil
	}
	c, key := m.cluster, m.spec.GetName()+"/"+table.GetName()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if known := c.hashed[key]; known != nil && proto.Equal(known.spec, table.Head.Hash) {
		return known.family, nil
	}
	family, err := hashing.New(table.Head.Hash, int(table.GetDim()), table.GetRows())
	if err != nil {
		return nil, invalid("table %q of model %q: %v", table.GetName(), m.spec.GetName(), err)
	}
	c.hashed[key] = &hashedTable{table.Head.Hash, family}
	return family, nil
}
