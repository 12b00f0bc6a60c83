package dslide

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	v1 "dslide.dev/gen/dslide/v1"
)

const shardRemedy = "see whether the shard runs (dslide status, its log), and start it again with its data directory"

// A Cluster is a client of a coordinator and its shards. Goroutines may share it.
type Cluster struct {
	options     Options
	coordinator *peer
	control     v1.CoordinatorServiceClient
	shards      []*shard // by ordinal
	topology    uint64   // as it was when the client was made
	clientID    []byte   // of the scatters

	mutex  sync.Mutex
	owners map[int64][]uint16       // by number of slots, of the map above
	specs  map[string]*v1.ModelSpec // of models that were opened
	hashed map[string]*hashedTable  // by "model/table"
	closed bool
}

// A shard is the client's side of one.
type shard struct {
	*peer
	ordinal int
	client  v1.ShardServiceClient
	scatter scatterQueue
}

// Dial connects to the coordinator at "host:port" or "unix:PATH" and to its shards.
//
// ErrUnavailable: nobody answers, or shards are missing. ErrFailedPrecondition: the cluster is of
// another version. ErrInvalidArgument: a malformed address, or files that are no certificates.
func Dial(ctx context.Context, address string, options *Options) (*Cluster, error) {
	complete, err := options.complete()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: complete, owners: map[int64][]uint16{}, specs: map[string]*v1.ModelSpec{},
		hashed: map[string]*hashedTable{}, clientID: newClientID()}
	c.coordinator, err = newPeer(&c.options, address, "coordinator", "start the coordinator (dslide up, or "+
		"dslide-coordinator --listen "+address+"), or name the address of one that runs")
	if err != nil {
		return nil, err
	}
	c.control = v1.NewCoordinatorServiceClient(c.coordinator.conn)
	if err := c.open(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func newClientID() []byte {
	id := make([]byte, 16)
	rand.Read(id) // never fails
	return id
}

func (c *Cluster) open(ctx context.Context) error {
	members, err := c.Map(ctx)
	if errors.Is(err, ErrUnimplemented) {
		return newError(codes.FailedPrecondition, "%s does not speak dslide.v1: it is of another version than this "+
			"client (%s), or no coordinator at all (%v)", c.coordinator.name, Version, err)
	} else if err != nil {
		return err
	}
	c.topology = members.TopologyVersion
	if err := c.keepOwners(members); err != nil {
		return err
	}
	for ordinal, info := range members.Shards {
		if int(info.ShardId) != ordinal {
			return newError(codes.Internal, "%s answered a map that lacks shards", c.coordinator.name)
		}
		p, err := newPeer(&c.options, info.Address, "shard "+strconv.Itoa(ordinal), shardRemedy)
		if err != nil {
			return err
		}
		s := &shard{peer: p, ordinal: ordinal, client: v1.NewShardServiceClient(p.conn)}
		s.scatter.init(s, c.options.Job, c.clientID)
		c.shards = append(c.shards, s)
	}
	return c.eachShard(func(s *shard) error { return s.checkVersion(ctx) })
}

// checkVersion refuses a shard of another minor version. One that is away is told of by the calls
// that need it.
func (s *shard) checkVersion(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(s.options.Timeout, s.options.Patience))
	defer cancel()
	info, err := once(ctx, s.peer, "GetServerInfo", s.client.GetServerInfo, &v1.GetServerInfoRequest{})
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrDeadlineExceeded) {
		return nil
	} else if err != nil {
		return err
	}
	if minor(info.Version) != minor(Version) {
		return newError(codes.FailedPrecondition, "%s is of version %s, this client of %s: use the client of the "+
			"cluster's version", s.name, info.Version, Version)
	}
	return nil
}

func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// Close closes the client at the shards that have heard of it, and all connections. It gives shards
// that are gone 5 seconds. No other call may run.
func (c *Cluster) Close() error {
	c.mutex.Lock()
	closed := c.closed
	c.closed = true
	c.mutex.Unlock()
	if closed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := c.eachShard(func(s *shard) error {
		s.scatter.close(ctx)
		return s.conn.Close()
	})
	return errors.Join(err, c.coordinator.conn.Close())
}

// NumShards returns how many shards the cluster has.
func (c *Cluster) NumShards() int { return len(c.shards) }

// Map returns where the shards are and who owns which slots, as the coordinator says now.
func (c *Cluster) Map(ctx context.Context) (*v1.GetClusterMapResponse, error) {
	return call(ctx, c.coordinator, "GetClusterMap", c.control.GetClusterMap, &v1.GetClusterMapRequest{})
}

// Status returns shards, models, jobs, operations and checkpoints in one answer.
func (c *Cluster) Status(ctx context.Context) (*v1.GetClusterStatusResponse, error) {
	return call(ctx, c.coordinator, "GetClusterStatus", c.control.GetClusterStatus, &v1.GetClusterStatusRequest{})
}

// eachShard runs do beside each other for all shards, and joins their errors by ordinal.
func (c *Cluster) eachShard(do func(*shard) error) error {
	failures := make([]error, len(c.shards))
	var all sync.WaitGroup
	for i, s := range c.shards {
		all.Go(func() { failures[i] = do(s) })
	}
	all.Wait()
	return errors.Join(failures...)
}

// --- Owners of slots --------------------------------------------------------------------------

func (c *Cluster) keepOwners(members *v1.GetClusterMapResponse) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, slots := range members.Slots {
		owners := make([]uint16, len(slots.Owners)/2)
		for i := range owners {
			owners[i] = binary.LittleEndian.Uint16(slots.Owners[2*i:])
		}
		if len(owners) == 0 || int64(len(slots.Owners)) != 2*slots.NumSlots || int(slices.Max(owners)) >= len(members.Shards) {
			return newError(codes.Internal, "%s answered %d bytes of owners of %d slots that are not those of %d shards",
				c.coordinator.name, len(slots.Owners), slots.NumSlots, len(members.Shards))
		}
		c.owners[slots.NumSlots] = owners
	}
	return nil
}

// learnOwners asks who owns the slots of a model's tables, as far as that is not known.
func (c *Cluster) learnOwners(ctx context.Context, spec *v1.ModelSpec) error {
	request := &v1.GetClusterMapRequest{}
	for _, table := range spec.Tables {
		if c.ownersOf(table) == nil && !slices.Contains(request.NumSlots, table.GetNumSlots()) {
			request.NumSlots = append(request.NumSlots, table.GetNumSlots())
		}
	}
	if len(request.NumSlots) == 0 {
		return nil
	}
	now, err := call(ctx, c.coordinator, "GetClusterMap", c.control.GetClusterMap, request)
	if err != nil {
		return err
	}
	if now.TopologyVersion != c.topology {
		return &Error{Code: codes.FailedPrecondition, Reason: "STALE_TOPOLOGY",
			Message: "the cluster's shards changed since this client was made: dial again"}
	}
	if err := c.keepOwners(now); err != nil {
		return err
	}
	for _, slots := range request.NumSlots {
		if c.ownersOf(&v1.TableSpec{NumSlots: &slots}) == nil {
			return newError(codes.Internal, "%s did not answer who owns %d slots", c.coordinator.name, slots)
		}
	}
	return nil
}

// ownersOf returns the shard of each slot of a table; nil where it is not known.
func (c *Cluster) ownersOf(table *v1.TableSpec) []uint16 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.owners[table.GetNumSlots()]
}
