package dslide

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "dslide.dev/gen/dslide/v1"
)

// An Error is what went wrong: docs/operate/errors.md says for each code and reason word what to do.
// errors.Is compares it with the errors of codes below and with a Reason, and finds the caller's own
// context.Canceled and context.DeadlineExceeded.
type Error struct {
	Code codes.Code
	// The reason word, for example "UNKNOWN_MODEL", and what the server said beside it; empty where
	// there is none.
	Reason   string
	Metadata map[string]string
	// Names the thing, the value and the remedy.
	Message string
	// What to do where no server has answered; else empty.
	Remedy string
	// After this the server wants the same request again; 0 where it does not.
	RetryAfter time.Duration
	// Of a change: nobody knows whether it was applied. False: it was not.
	MaybeApplied bool
	// Who was called, and the id by which the call is found in the server's log; empty where there
	// was no call.
	Peer, Method, RequestID string

	cause error
	final bool // another attempt would fail in the same way
}

// A Reason is compared with an error by errors.Is(err, dslide.Reason("UNKNOWN_MODEL")).
type Reason string

func (r Reason) Error() string { return "reason " + string(r) }

// The codes, for errors.Is.
var (
	ErrInvalidArgument    = &Error{Code: codes.InvalidArgument}
	ErrNotFound           = &Error{Code: codes.NotFound}
	ErrAlreadyExists      = &Error{Code: codes.AlreadyExists}
	ErrFailedPrecondition = &Error{Code: codes.FailedPrecondition}
	ErrPermissionDenied   = &Error{Code: codes.PermissionDenied}
	ErrUnauthenticated    = &Error{Code: codes.Unauthenticated}
	ErrResourceExhausted  = &Error{Code: codes.ResourceExhausted}
	ErrUnavailable        = &Error{Code: codes.Unavailable}
	ErrDeadlineExceeded   = &Error{Code: codes.DeadlineExceeded}
	ErrAborted            = &Error{Code: codes.Aborted}
	ErrDataLoss           = &Error{Code: codes.DataLoss}
	ErrUnimplemented      = &Error{Code: codes.Unimplemented}
	ErrInternal           = &Error{Code: codes.Internal}
)

func (e *Error) Error() string {
	text := e.Message
	if text == "" {
		text = e.Code.String()
	}
	if e.Method != "" {
		text = fmt.Sprintf("%s, %s: %s", e.Peer, e.Method, text)
	}
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	if e.RequestID != "" {
		text += fmt.Sprintf(" (request %s)", e.RequestID)
	}
	return text
}

// Is compares by the code of an error that has nothing else, or by the reason word.
func (e *Error) Is(target error) bool {
	switch t := target.(type) {
	case Reason:
		return e.Reason == string(t)
	case *Error:
		return t.Message == "" && t.Method == "" && t.Code == e.Code
	}
	return false
}

// Unwrap returns the error of the caller's context, where that has ended the call.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus is for status.FromError.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.Error()) }

func newError(code codes.Code, format string, arguments ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, arguments...)}
}

func invalid(format string, arguments ...any) *Error {
	return newError(codes.InvalidArgument, format, arguments...)
}

// asError returns the Error that err is. Every error that this package makes is one.
func asError(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Code: codes.Unknown, Message: err.Error(), cause: err}
	}
	return e
}

// provesNothingApplied says whether a server's program, not the transport, has refused the request.
func provesNothingApplied(code codes.Code, reason string) bool {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated:
		return true
	case codes.ResourceExhausted, codes.Unavailable:
		return reason != "" && reason != "LOG_FAILED"
	}
	return false
}

// callError makes the error of a failed call of a peer.
func callError(ctx context.Context, p *peer, method, requestID string, err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	s := status.Convert(err)
	e := &Error{Code: s.Code(), Message: s.Message(), Peer: p.name, Method: method, RequestID: requestID}
	if ctx.Err() != nil && (e.Code == codes.Canceled || e.Code == codes.DeadlineExceeded) {
		e.cause = ctx.Err()
	} else if e.Code == codes.Canceled {
		e.Code = codes.Unavailable // the server takes calls back when it stops
	}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.Domain == "dslide" {
				e.Reason, e.Metadata = d.Reason, d.Metadata
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = d.RetryDelay.AsDuration()
		case *errdetails.RequestInfo:
			e.RequestID = d.RequestId
		}
	}
	e.MaybeApplied = !provesNothingApplied(e.Code, e.Reason)
	// This side refuses the server's certificate.
	e.final = strings.Contains(e.Message, "x509: ")
	if e.Reason == "" && (e.Code == codes.Unavailable || e.Code == codes.DeadlineExceeded) {
		e.Remedy = p.remedyOf(e.Message)
	}
	return e
}

// stepError makes the error of an answer inside a stream or of an operation.
func stepError(p *peer, method, requestID string, said *v1.StepError) *Error {
	code := codes.Code(said.Code)
	return &Error{Code: code, Reason: said.Reason, Message: said.Message, Peer: p.name, Method: method,
		RetryAfter: said.RetryAfter.AsDuration(), RequestID: requestID,
		MaybeApplied: !provesNothingApplied(code, said.Reason)}
}
