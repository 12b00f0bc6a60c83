package dslide

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	v1 "dslide.dev/gen/dslide/v1"
)

// Jobs returns the training jobs of the cluster and how far they are.
func (c *Cluster) Jobs(ctx context.Context) ([]*v1.JobStatus, error) {
	status, err := c.Status(ctx)
	return status.GetJobs(), err
}

// Job returns how far a job is. ErrNotFound names those that there are.
func (c *Cluster) Job(ctx context.Context, name string) (*v1.JobStatus, error) {
	jobs, err := c.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(jobs))
	for _, job := range jobs {
		if job.Job == name {
			return job, nil
		}
		names = append(names, job.Job)
	}
	there := "it has none"
	if len(names) > 0 {
		there = "it has: " + strings.Join(names, ", ")
	}
	return nil, &Error{Code: codes.NotFound, Reason: "UNKNOWN_JOB",
		Message: fmt.Sprintf("the cluster has no job %q; %s", name, there)}
}

// CancelJob ends a job: its trainers end well, and what was trained stays. Returns its status then.
func (c *Cluster) CancelJob(ctx context.Context, name string) (*v1.JobStatus, error) {
	answer, err := call(ctx, c.coordinator, "CancelJob", c.control.CancelJob, &v1.CancelJobRequest{Job: name})
	return answer.GetJob(), err
}

// DeleteJob forgets a job that has ended, so that one of its name begins anew.
// ErrFailedPrecondition, JOB_RUNS: it has not ended.
func (c *Cluster) DeleteJob(ctx context.Context, name string) error {
	_, err := call(ctx, c.coordinator, "DeleteJob", c.control.DeleteJob, &v1.DeleteJobRequest{Job: name})
	return err
}
