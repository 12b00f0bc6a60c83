package dslide

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	v1 "dslide.dev/gen/dslide/v1"
)

// A stepStream is the hot path to one shard: a long-lived stream of operations, one at a time, mended
// when it breaks. What has no answer is sent again under its sequence: the shard applies nothing
// twice and repeats the answer that it had given.
type stepStream struct {
	shard     *shard
	steps     *Steps
	requestID string // of all its connections
	sequence  sequence
	packed    bool // the shard reads packed ids
	current   *stepConnection
}

// A stepConnection is one gRPC stream. Its reader ends with it.
type stepConnection struct {
	stream  v1.ShardService_StepClient
	cancel  context.CancelFunc
	answers chan stepAnswer // of the operation that waits
}

type stepAnswer struct {
	response *v1.StepResponse
	err      error
}

func (s *stepStream) hello(ctx context.Context) error {
	hello, err := s.sequence.greet(ctx, s.shard, s.steps.job, s.steps.clientID)
	if err == nil {
		s.packed = slices.Contains(hello.Capabilities, "packed-steps")
	}
	return err
}

func (s *stepStream) connect() error {
	// It lives longer than the call that has opened it.
	ctx, cancel := context.WithCancel(context.Background())
	marked, id := s.shard.withMetadata(ctx)
	stream, err := s.shard.client.Step(marked)
	if err != nil {
		cancel()
		return callError(ctx, s.shard.peer, "Step", id, err)
	}
	s.requestID = id
	s.current = &stepConnection{stream, cancel, make(chan stepAnswer)}
	go s.current.read(ctx)
	return nil
}

func (c *stepConnection) read(ctx context.Context) {
	for {
		response, err := c.stream.Recv()
		select {
		case c.answers <- stepAnswer{response, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *stepStream) disconnect() {
	if s.current != nil {
		s.current.cancel()
		s.current = nil
	}
}

// run does one operation, exactly once. One whose error leaves it open is given up: no later one has
// its number, and once a later one was heard it cannot be applied any more.
func (s *stepStream) run(ctx context.Context, request *v1.StepRequest) (*v1.StepResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.shard.options.Timeout)
	defer cancel()
	response, err := s.untilSettled(ctx, request)
	if err == nil {
		s.sequence.confirmed = s.sequence.next
	}
	s.sequence.next++
	return response, err
}

func (s *stepStream) untilSettled(ctx context.Context, request *v1.StepRequest) (*v1.StepResponse, error) {
	start, maybe := time.Now(), false
	for number := 1; ; number++ {
		response, err := s.attempt(ctx, request)
		if err == nil {
			return response, nil
		}
		e := asError(err)
		busy := mayRepeat(e) && provesNothingApplied(e.Code, e.Reason) || e.Code == codes.Aborted
		broken := s.current == nil
		maybe = maybe || broken && e.MaybeApplied
		pause := retryPause(e, number)
		late := !busy && time.Since(start)+pause >= s.shard.options.Patience
		if !busy && !broken && !needsGreeting(e) || errors.Is(err, ErrDataLoss) || late || sleep(ctx, pause) != nil {
			e.MaybeApplied = maybe && (busy || broken)
			if ctx.Err() != nil {
				s.disconnect() // the answer of what is given up may still come
			}
			return nil, e
		}
		if !busy && !broken {
			s.disconnect()
		}
	}
}

// attempt sends the operation and takes its answer. After an error the stream is open only where the
// shard has answered.
func (s *stepStream) attempt(ctx context.Context, request *v1.StepRequest) (*v1.StepResponse, error) {
	if s.current == nil {
		err := s.hello(ctx)
		if err == nil {
			err = s.connect()
		}
		if err != nil {
			asError(err).MaybeApplied = false // this time it was not even sent
			return nil, err
		}
	}
	request.Envelope = s.sequence.envelope(s.steps.job, s.steps.clientID, s.steps.model.spec.GetName(),
		s.steps.model.cluster.topology)
	// An error of sending is io.EOF, and Recv says why.
	_ = s.current.stream.Send(request)
	for {
		select {
		case <-ctx.Done():
			s.disconnect()
			e := newError(codes.DeadlineExceeded, "no answer in time; %s", s.shard.remedy)
			e.Peer, e.Method, e.RequestID, e.MaybeApplied, e.cause = s.shard.name, "Step", s.requestID, true, ctx.Err()
			return nil, e
		case answer := <-s.current.answers:
			if answer.err != nil {
				s.disconnect()
				return nil, callError(ctx, s.shard.peer, "Step", s.requestID, answer.err)
			}
			if answer.response.Sequence < s.sequence.next {
				continue // of an operation that was given up
			}
			if answer.response.Sequence > s.sequence.next {
				s.disconnect()
				e := newError(codes.Internal, "%s answered request %d instead of %d: it does not keep the order",
					s.shard.name, answer.response.Sequence, s.sequence.next)
				e.Peer, e.Method, e.RequestID, e.MaybeApplied = s.shard.name, "Step", s.requestID, true
				return nil, e
			}
			if said := answer.response.GetError(); said != nil {
				return nil, stepError(s.shard.peer, "Step", s.requestID, said)
			}
			return answer.response, nil
		}
	}
}

// close ends the stream and closes the client: the shard frees its contexts and answers.
func (s *stepStream) close(ctx context.Context) {
	s.disconnect()
	if s.sequence.generation != 0 {
		_, _ = once(ctx, s.shard.peer, "CloseClient", s.shard.client.CloseClient,
			&v1.CloseClientRequest{Job: s.steps.job, ClientId: s.steps.clientID})
	}
}
