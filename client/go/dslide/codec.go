package dslide

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec below
	"google.golang.org/grpc/mem"
)

// bulkCodec hands bytes of bulk messages on as they are, so that numbers are copied once. What is on
// the wire is ordinary protobuf.
type bulkCodec struct{}

// bulkReceiver reads a message from the memory in which it has arrived. It may not keep that.
type bulkReceiver interface{ receive(mem.BufferSlice) error }

func (bulkCodec) Name() string { return "proto" }

func (bulkCodec) Marshal(message any) (mem.BufferSlice, error) {
	if data, ok := message.(mem.BufferSlice); ok {
		return data, nil
	}
	return encoding.GetCodecV2("proto").Marshal(message)
}

func (bulkCodec) Unmarshal(data mem.BufferSlice, message any) error {
	if receiver, ok := message.(bulkReceiver); ok {
		return receiver.receive(data)
	}
	return encoding.GetCodecV2("proto").Unmarshal(data, message)
}
