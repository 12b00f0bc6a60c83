package dslide

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"dslide.dev/arrays"
	v1 "dslide.dev/gen/dslide/v1"
)

const chunkBytes = 1 << 20

// A sequence counts one client's commands to one shard.
type sequence struct {
	next       uint64 // of the next command
	confirmed  uint64 // the highest that was answered without an error
	generation uint64 // of the last greeting; 0: there was none
}

// greet says Hello. Numbers below the next one are given up by the envelopes, whatever became of them.
func (q *sequence) greet(ctx context.Context, s *shard, job string, clientID []byte) (*v1.HelloResponse, error) {
	hello, err := call(ctx, s.peer, "Hello", s.client.Hello,
		&v1.HelloRequest{Job: job, ClientId: clientID, AcknowledgedSequence: q.confirmed})
	if err != nil {
		return nil, err
	}
	if hello.NextSequence <= q.confirmed || hello.NextSequence > q.next+1 {
		e := newError(codes.DataLoss, "%s expects update %d of this client, but %d were confirmed: it was restarted "+
			"and has lost updates; restore a checkpoint and start the training again", s.name, hello.NextSequence, q.confirmed)
		e.Reason = "LOST_UPDATES"
		return nil, e
	}
	q.generation = hello.Generation
	return hello, nil
}

// envelope is of the command with the next number. All below it are answered or given up.
func (q *sequence) envelope(job string, clientID []byte, model string, topology uint64) *v1.RequestEnvelope {
	return &v1.RequestEnvelope{Job: job, ClientId: clientID, Sequence: q.next, FirstIncomplete: q.next,
		Generation: q.generation, TopologyVersion: topology, Model: model}
}

// needsGreeting says whether the shard was restarted since the last greeting, or does not know this
// client yet.
func needsGreeting(e *Error) bool {
	return e.Reason == "STALE_GENERATION" || e.Reason == "UNKNOWN_CLIENT"
}

// A scatterQueue sends the scatters of one client to one shard, one at a time and each exactly once.
type scatterQueue struct {
	shard    *shard
	job      string
	clientID []byte
	turn     chan struct{} // holds one token while nobody sends
	sequence sequence
	buffers  chunkPool
}

func (q *scatterQueue) init(s *shard, job string, clientID []byte) {
	q.shard, q.job, q.clientID = s, job, clientID
	q.sequence.next = 1
	q.turn = make(chan struct{}, 1)
	q.turn <- struct{}{}
}

// close closes the client at the shard, if that has heard of it. A shard that is gone has nothing to
// forget.
func (q *scatterQueue) close(ctx context.Context) {
	if q.sequence.generation != 0 {
		_, _ = once(ctx, q.shard.peer, "CloseClient", q.shard.client.CloseClient,
			&v1.CloseClientRequest{Job: q.job, ClientId: q.clientID})
	}
}

// A scatterPart is what one shard gets of a scatter.
type scatterPart struct {
	*rowChange
	part     part
	model    string
	topology uint64
}

// apply sends a scatter until it is applied, refused, or the time is over.
func (q *scatterQueue) apply(ctx context.Context, p scatterPart) error {
	ctx, cancel := context.WithTimeout(ctx, q.shard.options.Timeout)
	defer cancel()
	select {
	case <-ctx.Done():
		e := newError(codes.DeadlineExceeded, "%s: the context ended while earlier scatters were sent", q.shard.name)
		e.cause = ctx.Err()
		return e
	case <-q.turn:
	}
	defer func() { q.turn <- struct{}{} }()
	if q.sequence.generation == 0 {
		if _, err := q.sequence.greet(ctx, q.shard, q.job, q.clientID); err != nil {
			return err
		}
	}
	err := q.untilSettled(ctx, p)
	if err == nil {
		q.sequence.confirmed = q.sequence.next
	}
	// The number of a scatter that has failed is given up: it is never another scatter's, and once a
	// later one was heard it cannot be applied any more.
	q.sequence.next++
	return err
}

func (q *scatterQueue) untilSettled(ctx context.Context, p scatterPart) error {
	start, maybe := time.Now(), false
	for number := 1; ; number++ {
		err := q.attempt(ctx, p)
		if err == nil {
			return nil
		}
		e := asError(err)
		busy := !e.MaybeApplied && mayRepeat(e)
		again := busy || e.MaybeApplied && !e.final || needsGreeting(e) || e.Reason == "INCOMPLETE"
		maybe = maybe || e.MaybeApplied
		pause := retryPause(e, number)
		late := !busy && time.Since(start)+pause >= q.shard.options.Patience
		if !again || late || sleep(ctx, pause) != nil {
			e.MaybeApplied = maybe && again
			return e
		}
		if busy {
			continue
		}
		// When the scatter was applied, sending it again gets its answer.
		if _, err := q.sequence.greet(ctx, q.shard, q.job, q.clientID); errors.Is(err, ErrDataLoss) {
			return err
		}
	}
}

var scatterStream = grpc.StreamDesc{StreamName: "Scatter", ClientStreams: true}

func (q *scatterQueue) attempt(ctx context.Context, p scatterPart) error {
	ctx, cancel := context.WithCancel(ctx) // frees a stream that is not read to its end
	defer cancel()
	ctx, id := q.shard.withMetadata(ctx)
	if err := q.send(ctx, p); err != nil {
		return callError(ctx, q.shard.peer, "Scatter", id, err)
	}
	return nil
}

func (q *scatterQueue) send(ctx context.Context, p scatterPart) error {
	stream, err := q.shard.conn.NewStream(ctx, &scatterStream, v1.ShardService_Scatter_FullMethodName,
		grpc.ForceCodecV2(bulkCodec{}))
	if err != nil {
		return err
	}
	rows := max(1, min(1<<16, chunkBytes/(4*int(p.table.GetDim()))))
	for first := 0; first < len(p.part.ids); first += rows {
		message, err := q.message(p, first, min(first+rows, len(p.part.ids)))
		if err != nil {
			return err
		}
		if err := stream.SendMsg(message); err == io.EOF {
			break // the answer says why
		} else if err != nil {
			return err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return stream.RecvMsg(&v1.ScatterResponse{})
}

// message lays a ScatterRequest out around a copy of its rows. They are copied because the transport
// may still read them when a call has failed and its caller uses the memory again.
func (q *scatterQueue) message(p scatterPart, first, end int) (mem.BufferSlice, error) {
	request := &v1.ScatterRequest{}
	if first == 0 {
		request.Envelope = q.sequence.envelope(q.job, q.clientID, p.model, p.topology)
		request.Table, request.Mode, request.TotalRows = p.table.GetName(), v1.ScatterMode(p.mode), int64(len(p.part.ids))
		if p.rate != 0 {
			request.LearningRate = &p.rate
		}
	}
	head, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	dim, n := int(p.table.GetDim()), end-first
	values := q.buffers.get(4 * n * dim)
	p.copyRows(*values, first, end)
	var biases []byte
	if p.biases != nil {
		some := make([]float32, n)
		for i := range some {
			some[i] = p.biases[p.part.place(first+i)]
		}
		biases = arrays.Floats(some)
	}
	matrix := appendVarint(nil, 1, uint64(n))
	matrix = appendVarint(matrix, 2, uint64(dim))
	matrix = appendVarint(matrix, 3, uint64(v1.ElementType_ELEMENT_TYPE_F32))
	matrix = appendHead(matrix, 4, len(*values))
	block := protowire.AppendTag(nil, 1, protowire.BytesType)
	block = protowire.AppendBytes(block, arrays.IDs(p.part.ids[first:end]))
	block = appendHead(block, 2, len(matrix)+len(*values))
	block = append(block, matrix...)
	var tail []byte
	if biases != nil {
		tail = protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), biases)
	}
	head = appendHead(head, 4, len(block)+len(*values)+len(tail))
	return mem.BufferSlice{mem.SliceBuffer(append(head, block...)), mem.NewBuffer(values, &q.buffers),
		mem.SliceBuffer(tail)}, nil
}

// copyRows copies the rows of a part from first to end, in the order of the wire.
func (p scatterPart) copyRows(into []byte, first, end int) {
	dim := int(p.table.GetDim())
	if p.part.places == nil {
		copy(into, bytesOf(p.values[(p.part.first+first)*dim:(p.part.first+end)*dim]))
	} else {
		for i, place := range p.part.places[first:end] {
			copy(into[4*i*dim:], bytesOf(p.values[place*dim:(place+1)*dim]))
		}
	}
	swap(into)
}

func appendVarint(data []byte, number protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(data, number, protowire.VarintType), value)
}

// appendHead appends what stands before a field of so many bytes.
func appendHead(data []byte, number protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(data, number, protowire.BytesType), uint64(size))
}

// A chunkPool keeps the memory of chunks for the next ones.
type chunkPool struct{ pool sync.Pool }

func (c *chunkPool) get(size int) *[]byte {
	data, ok := c.pool.Get().(*[]byte)
	if !ok || cap(*data) < size {
		made := make([]byte, max(size, chunkBytes))
		data = &made
	}
	*data = (*data)[:size]
	return data
}

// Get is for mem.BufferPool.
func (c *chunkPool) Get(size int) *[]byte { return c.get(size) }

// Put takes the memory back; the transport calls it when it has sent it.
func (c *chunkPool) Put(data *[]byte) { c.pool.Put(data) }
