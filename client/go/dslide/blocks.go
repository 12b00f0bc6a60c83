package dslide

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	v1 "dslide.dev/gen/dslide/v1"
)

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// bytesOf is the memory of numbers.
func bytesOf[T float32 | uint32](numbers []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), 4*len(numbers))
}

// swap turns numbers between the wire's order and that of this machine, in place.
func swap(data []byte) {
	if littleEndian {
		return
	}
	for i := 0; i+4 <= len(data); i += 4 {
		binary.LittleEndian.PutUint32(data[i:], binary.BigEndian.Uint32(data[i:]))
	}
}

// A span is where a field's bytes stand in a message.
type span struct{ at, size int }

// rowBlock says where the numbers of a RowBlock stand in a message.
type rowBlock struct {
	ids, values, biases span
	rows, cols          uint64
	element             v1.ElementType
}

// fields reads a message's fields in turn.
type fields struct {
	*mem.Reader
	size int // of the whole message
}

func (f *fields) at() int { return f.size - f.Remaining() }

// each calls field for the fields that stand before end: with the number of a varint, or with the
// span of a field of bytes, which field may have read. Fields of other types are skipped.
func (f *fields) each(end int, field func(number protowire.Number, value uint64, bytes span) error) error {
	for f.at() < end {
		tag, err := binary.ReadUvarint(f)
		if err != nil {
			return err
		}
		number, kind := protowire.DecodeTag(tag)
		value, bytes := uint64(0), span{}
		switch kind {
		case protowire.VarintType, protowire.BytesType:
			if value, err = binary.ReadUvarint(f); err != nil {
				return err
			}
		case protowire.Fixed32Type:
			_, err = f.Discard(4)
		case protowire.Fixed64Type:
			_, err = f.Discard(8)
		default:
			err = fmt.Errorf("wire type %d", kind)
		}
		if err != nil {
			return err
		}
		if kind == protowire.BytesType {
			if value > uint64(end-f.at()) {
				return io.ErrUnexpectedEOF
			}
			bytes = span{f.at(), int(value)}
		} else if kind != protowire.VarintType {
			continue
		}
		if err := field(number, value, bytes); err != nil {
			return err
		}
		if rest := bytes.at + bytes.size - f.at(); kind == protowire.BytesType && rest > 0 {
			if _, err := f.Discard(rest); err != nil {
				return err
			}
		}
	}
	return nil
}

// findRows finds the rows of a GatherResponse. Fields may come in any order; of one that occurs twice
// the last counts.
func findRows(data mem.BufferSlice) (block rowBlock, err error) {
	block.element = v1.ElementType_ELEMENT_TYPE_F32
	reader := data.Reader()
	defer reader.Close()
	f := &fields{reader, data.Len()}
	err = f.each(f.size, func(number protowire.Number, _ uint64, rows span) error {
		if number != 1 {
			return nil
		}
		return f.each(rows.at+rows.size, func(number protowire.Number, _ uint64, bytes span) error {
			switch number {
			case 1:
				block.ids = bytes
			case 2:
				return block.findValues(f, bytes)
			case 3:
				block.biases = bytes
			}
			return nil
		})
	})
	return block, err
}

func (b *rowBlock) findValues(f *fields, matrix span) error {
	return f.each(matrix.at+matrix.size, func(number protowire.Number, value uint64, bytes span) error {
		switch number {
		case 1:
			b.rows = value
		case 2:
			b.cols = value
		case 3:
			b.element = v1.ElementType(value)
		case 4:
			b.values = bytes
		}
		return nil
	})
}

// check compares the sizes of a block of f32 rows.
func (b *rowBlock) check(dim int, withBiases bool) error {
	if b.rows > 1<<20 || b.ids.size != 4*int(b.rows) || b.values.size != b.ids.size*dim ||
		b.rows > 0 && (b.cols != uint64(dim) || b.element != v1.ElementType_ELEMENT_TYPE_F32) ||
		withBiases && b.biases.size != b.ids.size {
		return errors.New("its sizes differ")
	}
	return nil
}

// readAt reads numbers of a message, in the order of this machine.
func readAt(data mem.BufferSlice, at int, parts func(read func([]byte) error) error) error {
	reader := data.Reader()
	defer reader.Close()
	if _, err := reader.Discard(at); err != nil {
		return err
	}
	return parts(func(into []byte) error {
		_, err := io.ReadFull(reader, into)
		swap(into)
		return err
	})
}
