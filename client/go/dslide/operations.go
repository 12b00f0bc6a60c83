package dslide

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "dslide.dev/gen/dslide/v1"
)

const (
	// For so long one question waits for the end of an operation.
	operationTurn = 30 * time.Second
	// After an answer that came too early.
	operationPause = 200 * time.Millisecond
)

// starts is the answer to a call that starts an operation.
type starts interface{ GetOperation() *v1.Operation }

// finish starts an operation and waits for its end; again when its coordinator is gone. Without a
// deadline of the caller it waits an hour.
func finish[Request any, Response starts](
	ctx context.Context, c *Cluster, name string, do method[Request, Response], request Request,
) (operation *v1.Operation, err error) {
	err = c.coordinator.repeat(ctx, longTimeout, func(ctx context.Context) error {
		answer, err := call(ctx, c.coordinator, name, do, request)
		if err != nil {
			return err
		}
		for operation = answer.GetOperation(); !operation.Done; {
			if operation, err = c.look(ctx, operation.OperationId); err != nil {
				return err
			}
		}
		if operation.Error != nil {
			return stepError(c.coordinator, name, "", operation.Error)
		}
		return nil
	})
	return operation, err
}

func (c *Cluster) look(ctx context.Context, id string) (*v1.Operation, error) {
	asked, request := time.Now(), &v1.GetOperationRequest{OperationId: id, Wait: durationpb.New(operationTurn)}
	var answer *v1.GetOperationResponse
	err := c.coordinator.repeat(ctx, operationTurn+c.options.Timeout, func(ctx context.Context) (err error) {
		answer, err = once(ctx, c.coordinator, "GetOperation", c.control.GetOperation, request)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		// The coordinator was restarted: the work may be repeated.
		gone := *asError(err)
		gone.Code = codes.Unavailable
		return nil, &gone
	} else if err != nil {
		return nil, err
	}
	if !answer.Operation.Done && time.Since(asked) < operationTurn {
		_ = sleep(ctx, operationPause)
	}
	return answer.Operation, nil
}

// SaveCheckpoint makes every shard write the model's rows under a name; it needs data directories.
func (m *Model) SaveCheckpoint(ctx context.Context, checkpoint string) (*v1.CheckpointWritten, error) {
	done, err := finish(ctx, m.cluster, "CreateCheckpoint", m.cluster.control.CreateCheckpoint,
		&v1.CreateCheckpointRequest{Model: m.spec.GetName(), Checkpoint: checkpoint})
	return done.GetCreateCheckpoint(), err
}

// RestoreCheckpoint makes every shard take the model's rows from it; returns how many there are.
func (m *Model) RestoreCheckpoint(ctx context.Context, checkpoint string) (int64, error) {
	done, err := finish(ctx, m.cluster, "RestoreCheckpoint", m.cluster.control.RestoreCheckpoint,
		&v1.RestoreCheckpointRequest{Model: m.spec.GetName(), Checkpoint: checkpoint})
	return done.GetRestoreCheckpoint().GetRows(), err
}

// SaveClusterCheckpoint takes a checkpoint of the whole cluster at one cut, while trainers go on.
func (c *Cluster) SaveClusterCheckpoint(ctx context.Context) (*v1.ClusterCheckpoint, error) {
	done, err := finish(ctx, c, "CreateClusterCheckpoint", c.control.CreateClusterCheckpoint,
		&v1.CreateClusterCheckpointRequest{})
	return done.GetCreateClusterCheckpoint(), err
}

// ListClusterCheckpoints returns the cluster's checkpoints, the newest first.
func (c *Cluster) ListClusterCheckpoints(ctx context.Context) ([]*v1.ClusterCheckpoint, error) {
	var checkpoints []*v1.ClusterCheckpoint
	for request := (&v1.ListClusterCheckpointsRequest{}); ; {
		page, err := call(ctx, c.coordinator, "ListClusterCheckpoints", c.control.ListClusterCheckpoints, request)
		if err != nil {
			return nil, err
		}
		checkpoints = append(checkpoints, page.Checkpoints...)
		if page.NextPageToken == "" {
			return checkpoints, nil
		}
		request.PageToken = page.NextPageToken
	}
}

// RestoreClusterCheckpoint restores the whole cluster from a checkpoint, 0: the newest; returns
// which it was.
func (c *Cluster) RestoreClusterCheckpoint(ctx context.Context, id uint64) (uint64, error) {
	done, err := finish(ctx, c, "RestoreClusterCheckpoint", c.control.RestoreClusterCheckpoint,
		&v1.RestoreClusterCheckpointRequest{CheckpointId: id})
	return done.GetRestoreClusterCheckpoint().GetCheckpointId(), err
}
