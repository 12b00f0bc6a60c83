// Reads, changes and scores rows of a dslide cluster; from protos/ and docs/understand/wire.md
// alone.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	pb "dslide.dev/example/gen/dslidev1"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const job, k, noRow, f32 = "example", 5, math.MaxUint32, pb.ElementType_ELEMENT_TYPE_F32

var ctx, _ = context.WithTimeout(context.Background(), 20*time.Second) // its deadline is that of all calls

type shard struct {
	pb.ShardServiceClient
	envelope *pb.RequestEnvelope // of the last command
}

type prediction struct {
	Label uint32  `json:"label"`
	Logit float32 `json:"logit"`
}

// must ends the program on an error. A library would return it.
func must[T any](value T, err error) T {
	if err != nil {
		s, reason := status.Convert(err), "-"
		for _, detail := range s.Details() {
			info, _ := detail.(*errdetails.ErrorInfo)
			reason = cmp.Or(info.GetReason(), reason)
		}
		log.Fatalf("error: %s %s: %s", code.Code(s.Code()), reason, s.Message())
	}
	return value
}

func pack(numbers any) []byte     { return must(binary.Append(nil, binary.LittleEndian, numbers)) }
func u32Of(data []byte) uint32    { return binary.LittleEndian.Uint32(data) }
func floatOf(data []byte) float32 { return math.Float32frombits(u32Of(data)) }

// ownersOf returns the shard of each slot of a table.
func ownersOf(table *pb.TableSpec, members *pb.GetClusterMapResponse, shards []*shard) (owners []*shard) {
	same := func(slots *pb.SlotAssignment) bool { return slots.NumSlots == table.GetNumSlots() }
	for owner := range slices.Chunk(members.Slots[slices.IndexFunc(members.Slots, same)].Owners, 2) {
		owners = append(owners, shards[binary.LittleEndian.Uint16(owner)])
	}
	return owners
}

// next numbers a command. One whose answer was lost is sent again with the same number, and applied once.
func (s *shard) next() *pb.RequestEnvelope {
	s.envelope.Sequence++
	s.envelope.FirstIncomplete++
	return s.envelope
}

// gather returns the weights of the rows, which ascend, one row after the other.
func (s *shard) gather(table string, rows []uint32) (weights []float32) {
	selection := &pb.GatherRequest_Rows{Rows: &pb.RowSelection{RowIds: pack(rows)}}
	stream := must(s.Gather(ctx, &pb.GatherRequest{Model: s.envelope.Model, Table: table, Selection: selection,
		TopologyVersion: s.envelope.TopologyVersion}))
	for chunk, err := stream.Recv(); err != io.EOF; chunk, err = stream.Recv() {
		for number := range slices.Chunk(must(chunk, err).Rows.Values.Data, 4) {
			weights = append(weights, floatOf(number))
		}
	}
	return weights
}

// change adds delta to all weights of the rows, and checks that it is there, but for rounding to bf16.
func (s *shard) change(table string, rows []uint32, delta float32) {
	before, stream := s.gather(table, rows), must(s.Scatter(ctx))
	_ = stream.Send(&pb.ScatterRequest{Envelope: s.next(), Table: table, TotalRows: int64(len(rows)),
		Mode: pb.ScatterMode_SCATTER_MODE_ADD, Rows: &pb.RowBlock{RowIds: pack(rows), Values: &pb.Matrix{
			Rows: uint32(len(rows)), Cols: uint32(len(before) / len(rows)), ElementType: f32,
			Data: pack(slices.Repeat([]float32{delta}, len(before)))}, Biases: make([]byte, 4*len(rows))}})
	must(stream.CloseAndRecv()) // says the error of sending, too
	changed := func(a, b float32) bool { return math.Abs(float64(b-a-delta)) < 0.01 }
	if !slices.EqualFunc(before, s.gather(table, rows), changed) {
		log.Fatalf("error: ABORTED -: rows %d have not changed by %g", rows, delta)
	}
}

// hidden returns the input of the head: the sum of the rows of the features, over all shards, above 0.
func hidden(shards, owners []*shard, spec *pb.ModelSpec, features string) *pb.Matrix {
	table, sum := spec.Tables[0], make([]float32, spec.Tables[0].GetDim())
	if table.GetBiasRow() {
		features += fmt.Sprintf(",%d:1", table.GetRows()-1)
	}
	rows, values := map[*shard][]uint32{}, map[*shard][]float32{}
	for pair := range strings.SplitSeq(features, ",") {
		row, value := uint32(0), float32(0)
		must(fmt.Sscanf(pair, "%d:%g", &row, &value))
		s := owners[int64(row)%table.GetNumSlots()]
		rows[s], values[s] = append(rows[s], row), append(values[s], value)
	}
	for _, s := range shards { // in this order, so that every client gets the same bits
		stream := must(s.Step(ctx))
		_ = stream.Send(&pb.StepRequest{Envelope: s.next(), Step: 1, FirstOpenStep: 1,
			Operation: &pb.StepRequest_EmbedForward{EmbedForward: &pb.EmbedForward{Table: table.GetName(), Batch: 1,
				SampleOffsets: pack([]uint32{0, uint32(len(rows[s]))}), RowIds: pack(rows[s]), Values: pack(values[s])}}})
		answer := must(stream.Recv())
		if e := answer.GetError(); e != nil {
			log.Fatalf("error: %s %s: %s", code.Code(e.Code), e.Reason, e.Message)
		}
		data := answer.GetEmbedForward().Partial.Data
		width := len(data) / len(sum) // 4 bytes; or 2: a bf16 is the upper half of an f32
		for j := range sum {
			sum[j] += floatOf(append(make([]byte, 4-width), data[width*j:][:width]...))
		}
	}
	for j, x := range sum {
		bits := math.Float32bits(max(x, 0))
		if spec.GetActivations() == "bf16" {
			bits = (bits + 0x7fff + bits>>16&1) &^ 0xffff
		}
		sum[j] = math.Float32frombits(bits)
	}
	return &pb.Matrix{Rows: 1, Cols: uint32(table.GetDim()), ElementType: f32, Data: pack(sum)}
}

func main() {
	log.SetFlags(0)
	address, model := flag.String("address", "", "HOST:PORT of the coordinator"), flag.String("model", "", "")
	ca, cert, key := flag.String("ca", "", ""), flag.String("cert", "", ""), flag.String("key", "", "")
	features := flag.String("features", "", "feature:value,feature:value, ascending, as the model sees them")
	flag.Parse()
	auth := insecure.NewCredentials()
	if *ca != "" {
		authorities, pair := x509.NewCertPool(), must(tls.LoadX509KeyPair(*cert, *key))
		authorities.AppendCertsFromPEM(must(os.ReadFile(*ca)))
		auth = credentials.NewTLS(&tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{pair}})
	}
	client := pb.NewCoordinatorServiceClient(must(grpc.NewClient(*address, grpc.WithTransportCredentials(auth))))
	members := must(client.GetClusterMap(ctx, &pb.GetClusterMapRequest{}))
	id, shards := make([]byte, 16), []*shard{}
	rand.Read(id) // never fails
	for _, info := range members.Shards {
		client := pb.NewShardServiceClient(must(grpc.NewClient(info.Address, grpc.WithTransportCredentials(auth))))
		hello := must(client.Hello(ctx, &pb.HelloRequest{Job: job, ClientId: id}))
		defer client.CloseClient(ctx, &pb.CloseClientRequest{Job: job, ClientId: id})
		shards = append(shards, &shard{client, &pb.RequestEnvelope{Job: job, ClientId: id,
			Generation: hello.Generation, TopologyVersion: members.TopologyVersion, Model: *model}})
	}
	spec := must(shards[0].DescribeModel(ctx, &pb.DescribeModelRequest{Model: *model})).Spec
	if len(spec.Tables) != 2 {
		log.Fatal("error: UNIMPLEMENTED -: models with dense layers are not supported here")
	}
	head, rows, best := spec.Tables[1], map[*shard][]uint32{}, []prediction{}
	owners := ownersOf(head, members, shards)
	for row := range min(10, head.GetRows()) {
		s := owners[row%head.GetNumSlots()]
		rows[s] = append(rows[s], uint32(row))
	}
	for s, part := range rows {
		s.change(head.GetName(), part, 0.25)
		s.change(head.GetName(), part, -0.25) // takes it back
	}
	request := &pb.TopKRequest{Model: *model, Table: head.GetName(), K: k, Mode: pb.TopKMode_TOP_K_MODE_EXACT,
		Hidden: hidden(shards, ownersOf(spec.Tables[0], members, shards), spec, *features)}
	for _, s := range shards {
		answer := must(s.TopK(ctx, request))
		for i := 0; i < 4*k && u32Of(answer.RowIds[i:]) != noRow; i += 4 {
			best = append(best, prediction{u32Of(answer.RowIds[i:]), floatOf(answer.Logits[i:])})
		}
	}
	slices.SortFunc(best, func(a, b prediction) int {
		return cmp.Or(cmp.Compare(b.Logit, a.Logit), cmp.Compare(a.Label, b.Label))
	})
	must(0, json.NewEncoder(os.Stdout).Encode(map[string]any{"model": *model, "shards": len(shards),
		"rows_changed": min(10, head.GetRows()), "predictions": best[:min(k, len(best))]}))
}
