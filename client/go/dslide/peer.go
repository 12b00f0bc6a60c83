package dslide

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
)

const (
	// Messages are at most 4 MiB by the protocol; the margin is for what is around bulk fields.
	maxMessageBytes = 4<<20 + 64<<10
	// Windows that a connection of loopback fills. Set, they are not measured with pings.
	windowBytes = 16 << 20
	readBytes   = 128 << 10
	// Each write wakes the peer: fewer and larger ones cost both ends less.
	writeBytes = 512 << 10
	// Of calls that write or read all rows.
	longTimeout  = time.Hour
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// A peer is one server: a connection, and calls with all that belongs to them.
type peer struct {
	name, remedy string
	options      *Options
	conn         *grpc.ClientConn
}

// newPeer connects lazily; name and remedy are for errors.
func newPeer(options *Options, address, name, remedy string) (*peer, error) {
	if err := options.checkAddress(address); err != nil {
		return nil, err
	}
	auth, err := options.credentials()
	if err != nil {
		return nil, err
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(auth),
		grpc.WithUserAgent("dslide-go/" + Version),
		grpc.WithDisableRetry(), // changes are repeated by their sequence alone
		grpc.WithInitialWindowSize(windowBytes),
		grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithReadBufferSize(readBytes),
		grpc.WithWriteBufferSize(writeBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: longestPause},
			MinConnectTimeout: 3 * time.Second,
		}),
	}
	if staysHere(address) {
		dial = append(dial, grpc.WithNoProxy()) // none knows this machine's own addresses
	}
	conn, err := grpc.NewClient(address, dial...)
	if err != nil {
		return nil, invalid("address %q: %v", address, err)
	}
	return &peer{name + " at " + address, remedy, options, conn}, nil
}

// remedyOf returns what to do when the transport has said this.
func (p *peer) remedyOf(message string) string {
	if strings.Contains(message, "handshake failed") || strings.Contains(message, "tls: ") {
		return "the handshake failed: check TLS.CA, TLS.Cert and TLS.Key, and what the server was started with; " + p.remedy
	}
	return p.remedy
}

// withMetadata returns the context of one call, and the request id that it sends.
func (p *peer) withMetadata(ctx context.Context) (context.Context, string) {
	id := p.options.RequestID
	if id == "" {
		id = newRequestID()
	}
	return metadata.AppendToOutgoingContext(ctx, "dslide-client", "go/"+Version, "x-request-id", id), id
}

func newRequestID() string {
	var random [8]byte
	rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

// method is what generated code has for a unary call.
type method[Request, Response any] func(context.Context, Request, ...grpc.CallOption) (Response, error)

// once is one attempt of a unary call.
func once[Request, Response any](
	ctx context.Context, p *peer, name string, do method[Request, Response], request Request,
) (Response, error) {
	marked, id := p.withMetadata(ctx)
	response, err := do(marked, request)
	if err != nil {
		return response, callError(ctx, p, name, id, err)
	}
	return response, nil
}

// call is a unary call that is safe to repeat.
func call[Request, Response any](
	ctx context.Context, p *peer, name string, do method[Request, Response], request Request,
) (response Response, err error) {
	err = p.repeat(ctx, p.options.Timeout, func(ctx context.Context) error {
		response, err = once(ctx, p, name, do, request)
		return err
	})
	return response, err
}

// repeat calls attempt again while nobody answers, for as long as is patient, and while the server
// asks for the same request later, until the time is over.
func (p *peer) repeat(ctx context.Context, timeout time.Duration, attempt func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start, why := time.Now(), error(nil)
	for number := 1; ; number++ {
		err := attempt(ctx)
		switch {
		case err == nil:
			return nil
		case why != nil && errors.Is(err, ErrDeadlineExceeded):
			return why
		case !mayRepeat(asError(err)):
			return err
		}
		why = err
		pause := retryPause(asError(err), number)
		if asError(err).RetryAfter == 0 && time.Since(start)+pause >= p.options.Patience {
			return why
		}
		if sleep(ctx, pause) != nil {
			return why
		}
	}
}

func mayRepeat(e *Error) bool {
	return e.Code == codes.Unavailable && !e.final || e.Code == codes.ResourceExhausted && e.RetryAfter > 0
}

// retryPause returns the pause before a repetition, from 1: what the server asks for, or growing and
// spread.
func retryPause(e *Error, number int) time.Duration {
	if e.RetryAfter > 0 {
		return e.RetryAfter
	}
	nominal := min(longestPause, firstPause<<min(number-1, 10))
	return nominal/2 + mathrand.N(nominal/2)
}

// sleep returns the context's error where that ends, or would end, before.
func sleep(ctx context.Context, pause time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
