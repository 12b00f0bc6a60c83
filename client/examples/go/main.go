// Reads, changes and scores rows of a dslide cluster; from protos/ and docs/wire.md alone.
package main

//go:generate ./generate.sh

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "dslide.dev/example/gen/dslidev1"
)

const (
	job     = "example"
	k       = 5
	noRow   = math.MaxUint32
	timeout = 20 * time.Second
)

type shard struct {
	client     pb.ShardServiceClient
	capacity   float64
	generation uint64
	sequence   uint64
}

type cluster struct {
	shards   []*shard
	spec     *pb.ModelSpec
	topology uint64
	clientID []byte
}

type prediction struct {
	Label uint32  `json:"label"`
	Logit float32 `json:"logit"`
}

// --- Arrays are little-endian, whatever this machine is ------------------------------------------

func pack[T uint32 | float32](numbers []T) []byte {
	return must(binary.Append(nil, binary.LittleEndian, numbers))
}

func unpack[T uint16 | uint32 | float32](data []byte) []T {
	numbers := make([]T, len(data)/binary.Size(T(0)))
	must(binary.Decode(data, binary.LittleEndian, numbers))
	return numbers
}

func matrix(rows int, numbers []float32) *pb.Matrix {
	return &pb.Matrix{Rows: uint32(rows), Cols: uint32(len(numbers) / rows),
		ElementType: pb.ElementType_ELEMENT_TYPE_F32, Data: pack(numbers)}
}

func numbersOf(m *pb.Matrix) []float32 {
	if m.ElementType != pb.ElementType_ELEMENT_TYPE_BF16 {
		return unpack[float32](m.Data)
	}
	var numbers []float32
	for _, half := range unpack[uint16](m.Data) {
		numbers = append(numbers, math.Float32frombits(uint32(half)<<16))
	}
	return numbers
}

func roundToBF16(x float32) float32 {
	bits := math.Float32bits(x)
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

// --- The cluster and its rows --------------------------------------------------------------------

// deal gives the owner of each slot: the next one goes to the shard that is furthest behind its
// share. The conversions keep the compiler from fusing operations, which would round differently.
func deal(slots int64, shards []*shard) []int {
	largest, total := 0.0, 0.0
	for _, s := range shards {
		largest = max(largest, s.capacity)
	}
	for _, s := range shards {
		total += s.capacity / largest
	}
	owners, dealt := make([]int, slots), make([]float64, len(shards))
	for slot := range owners {
		best, most := 0, math.Inf(-1)
		for i, s := range shards {
			share := float64(s.capacity / largest * float64(slot+1))
			if behind := share - float64(dealt[i]*total); behind > most {
				best, most = i, behind
			}
		}
		owners[slot] = best
		dealt[best]++
	}
	return owners
}

func transport(ca, cert, key string) credentials.TransportCredentials {
	if ca == "" {
		return insecure.NewCredentials()
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(must(os.ReadFile(ca)))
	pair := must(tls.LoadX509KeyPair(cert, key))
	return credentials.NewTLS(&tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{pair}})
}

func connect(ctx context.Context, address, model string, secure grpc.DialOption) *cluster {
	coordinator := pb.NewCoordinatorServiceClient(must(grpc.NewClient(address, secure)))
	members := must(coordinator.GetClusterMap(ctx, &pb.GetClusterMapRequest{}))
	c := &cluster{topology: members.TopologyVersion, clientID: make([]byte, 16)}
	rand.Read(c.clientID) // never fails
	for _, info := range members.Shards {
		client := pb.NewShardServiceClient(must(grpc.NewClient(info.Address, secure)))
		c.spec = must(client.DescribeModel(ctx, &pb.DescribeModelRequest{Model: model})).Spec
		hello := must(client.Hello(ctx, &pb.HelloRequest{Job: job, ClientId: c.clientID}))
		c.shards = append(c.shards, &shard{client, info.CapacityWeight, hello.Generation, 0})
	}
	return c
}

// bye makes room for others: a shard keeps at most 4,096 clients.
func (c *cluster) bye(ctx context.Context) {
	for _, s := range c.shards {
		must(s.client.Bye(ctx, &pb.ByeRequest{Job: job, ClientId: c.clientID}))
	}
}

// envelope numbers this client's next command for the shard. All earlier ones have been answered.
func (c *cluster) envelope(s *shard) *pb.RequestEnvelope {
	s.sequence++
	return &pb.RequestEnvelope{Job: job, ClientId: c.clientID, Sequence: s.sequence,
		FirstIncomplete: s.sequence, Generation: s.generation, TopologyVersion: c.topology,
		Model: c.spec.Name}
}

// slice gives each shard's part of the ids, which ascend.
func (c *cluster) slice(table *pb.TableSpec, ids []uint32) [][]uint32 {
	owners, parts := deal(table.NumSlots, c.shards), make([][]uint32, len(c.shards))
	for _, id := range ids {
		owner := owners[int64(id)%table.NumSlots]
		parts[owner] = append(parts[owner], id)
	}
	return parts
}

// gather returns the weights of the rows by id.
func (c *cluster) gather(ctx context.Context, table *pb.TableSpec, ids []uint32) map[uint32][]float32 {
	found := map[uint32][]float32{}
	for i, part := range c.slice(table, ids) {
		stream := must(c.shards[i].client.Gather(ctx, &pb.GatherRequest{
			Model: c.spec.Name, Table: table.Name, TopologyVersion: c.topology,
			Selection: &pb.GatherRequest_Rows{Rows: &pb.RowSelection{RowIds: pack(part)}}}))
		for {
			chunk, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			numbers := numbersOf(must(chunk, err).Rows.Values)
			for n, id := range unpack[uint32](chunk.Rows.RowIds) {
				found[id] = numbers[int64(n)*table.Dim:][:table.Dim]
			}
		}
	}
	return found
}

// add adds delta to all weights of the rows. It sends each part twice, as a client does that has
// lost the answer: the shard applies a sequence once.
func (c *cluster) add(ctx context.Context, table *pb.TableSpec, ids []uint32, delta float32) {
	for i, part := range c.slice(table, ids) {
		if len(part) == 0 {
			continue
		}
		values := slices.Repeat([]float32{delta}, len(part)*int(table.Dim))
		request := &pb.ScatterRequest{Envelope: c.envelope(c.shards[i]), Table: table.Name,
			Mode: pb.ScatterMode_SCATTER_MODE_ADD, TotalRows: int64(len(part)),
			Rows: &pb.RowBlock{RowIds: pack(part), Values: matrix(len(part), values),
				Biases: pack(make([]float32, len(part)))}}
		for range 2 {
			stream := must(c.shards[i].client.Scatter(ctx))
			_ = stream.Send(request) // its error is that of the answer
			must(stream.CloseAndRecv())
		}
	}
}

func (c *cluster) changeAndTakeBack(ctx context.Context, table *pb.TableSpec, ids []uint32) {
	before := c.gather(ctx, table, ids)
	for _, change := range []struct{ delta, expected float32 }{{0.25, 0.25}, {-0.25, 0}} {
		c.add(ctx, table, ids, change.delta)
		for id, weights := range c.gather(ctx, table, ids) {
			for i, weight := range weights {
				off := weight - before[id][i] - change.expected
				if math.Abs(float64(off)) > 0.01 { // rows may be stored in bf16
					panic(status.Errorf(codes.Aborted, "row %d is off by %g", id, off))
				}
			}
		}
	}
}

// --- Prediction ----------------------------------------------------------------------------------

// parse reads feature:value,feature:value. It returns the values as the model wants them.
func parse(text string, spec *pb.ModelSpec) map[uint32]float32 {
	if spec.Training.Transform == pb.InputTransform_INPUT_TRANSFORM_TF_IDF {
		panic(status.Error(codes.Unimplemented, "tf-idf needs the weights of the training data"))
	}
	input, squares := map[uint32]float32{}, 0.0
	for pair := range strings.SplitSeq(text, ",") {
		feature, value, _ := strings.Cut(pair, ":")
		id, idErr := strconv.ParseUint(feature, 10, 32)
		number, err := strconv.ParseFloat(value, 32)
		if err := errors.Join(idErr, err); err != nil {
			panic(status.Error(codes.InvalidArgument, err.Error()))
		}
		input[uint32(id)] = float32(number)
		squares += number * number
	}
	if spec.Training.Transform == pb.InputTransform_INPUT_TRANSFORM_L2 && squares > 0 {
		for id, value := range input {
			input[id] = float32(float64(value) / math.Sqrt(squares))
		}
	}
	if embedding := spec.Tables[0]; embedding.BiasRow {
		input[uint32(embedding.Rows-1)] = 1
	}
	return input
}

// embed returns the shard's part of the sum of the input's rows.
func (c *cluster) embed(ctx context.Context, s *shard, rows []uint32, values []float32) []float32 {
	stream := must(s.client.Step(ctx))
	_ = stream.Send(&pb.StepRequest{Envelope: c.envelope(s), Step: 1, FirstOpenStep: 1,
		Operation: &pb.StepRequest_EmbedForward{EmbedForward: &pb.EmbedForward{
			Table: c.spec.Tables[0].Name, Batch: 1, RowIds: pack(rows), Values: pack(values),
			SampleOffsets: pack([]uint32{0, uint32(len(rows))})}}}) // its error is that of the answer
	answer := must(stream.Recv())
	must(0, stream.CloseSend())
	if e := answer.GetError(); e != nil {
		failed := status.New(codes.Code(e.Code), e.Message)
		panic(must(failed.WithDetails(&errdetails.ErrorInfo{Domain: "dslide", Reason: e.Reason})).Err())
	}
	return numbersOf(answer.GetEmbedForward().Partial)
}

// hidden returns the input of the head: the sum of the rows of the features, where above 0. Parts
// are added in shard order and in f32, so that every client gets the same bits.
func (c *cluster) hidden(ctx context.Context, input map[uint32]float32) []float32 {
	sum := make([]float32, c.spec.Tables[0].Dim)
	for i, rows := range c.slice(c.spec.Tables[0], slices.Sorted(maps.Keys(input))) {
		var values []float32
		for _, row := range rows {
			values = append(values, input[row])
		}
		for j, x := range c.embed(ctx, c.shards[i], rows, values) {
			sum[j] += x
		}
	}
	for j := range sum {
		sum[j] = max(sum[j], 0)
		if c.spec.Activations == pb.ElementType_ELEMENT_TYPE_BF16 {
			sum[j] = roundToBF16(sum[j])
		}
	}
	return sum
}

func (c *cluster) topK(ctx context.Context, head *pb.TableSpec, hidden []float32) []prediction {
	var all []prediction
	for _, s := range c.shards {
		best := must(s.client.TopK(ctx, &pb.TopKRequest{Model: c.spec.Name, Table: head.Name, K: k,
			Hidden: matrix(1, hidden), Mode: pb.TopKMode_TOP_K_MODE_EXACT}))
		logits := unpack[float32](best.Logits)
		for i, label := range unpack[uint32](best.RowIds) {
			if label != noRow {
				all = append(all, prediction{label, logits[i]})
			}
		}
	}
	slices.SortFunc(all, func(a, b prediction) int {
		return cmp.Or(cmp.Compare(b.Logit, a.Logit), cmp.Compare(a.Label, b.Label))
	})
	return all[:min(k, len(all))]
}

// --- The program ---------------------------------------------------------------------------------

// must panics on an error, and main says which it was. A library would return it.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func reportAndExit() {
	switch err := recover().(type) {
	case nil:
	case error:
		reason := "-"
		for _, detail := range status.Convert(err).Details() {
			if info, ok := detail.(*errdetails.ErrorInfo); ok && info.Domain == "dslide" {
				reason = info.Reason
			}
		}
		s := status.Convert(err)
		fmt.Fprintf(os.Stderr, "error: %s %s: %s\n", code.Code(s.Code()), reason, s.Message())
		os.Exit(1)
	default:
		panic(err)
	}
}

func main() {
	defer reportAndExit()
	address := flag.String("address", "", "HOST:PORT of the coordinator")
	ca := flag.String("ca", "", "authorities of the servers' certificates; with -cert and -key")
	cert, key := flag.String("cert", "", "certificate"), flag.String("key", "", "its key")
	model := flag.String("model", "", "name of the model")
	features := flag.String("features", "", "feature:value,feature:value")
	flag.Parse()
	// Calls inherit the deadline.
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()

	c := connect(ctx, *address, *model, grpc.WithTransportCredentials(transport(*ca, *cert, *key)))
	defer c.bye(ctx)
	if len(c.spec.Tables) != 2 {
		panic(status.Error(codes.Unimplemented, "models with dense layers are not supported here"))
	}
	head := c.spec.Tables[1]
	var ids []uint32
	for id := range uint32(min(10, head.Rows)) {
		ids = append(ids, id)
	}
	c.changeAndTakeBack(ctx, head, ids)
	predictions := c.topK(ctx, head, c.hidden(ctx, parse(*features, c.spec)))
	must(0, json.NewEncoder(os.Stdout).Encode(map[string]any{"model": *model,
		"shards": len(c.shards), "rows_changed": len(ids), "predictions": predictions}))
}
