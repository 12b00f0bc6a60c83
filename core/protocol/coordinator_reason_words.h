// The reason words of the control plane: what programs compare instead of message texts.
// docs/operate/errors.md lists them with what to do. Words shared with the data plane are in
// reason_words.h.

#pragma once

namespace dslide::reason {

// --- INVALID_ARGUMENT.
inline constexpr char kBadRegistration[] = "BAD_REGISTRATION";  // ordinal, address, weight, id
inline constexpr char kBadJob[] = "BAD_JOB";                    // a number of the job spec
inline constexpr char kBadLeaseReport[] = "BAD_LEASE_REPORT";   // not this trainer's lease
inline constexpr char kJobDiffers[] = "JOB_DIFFERS";            // other settings or data
inline constexpr char kBadPageToken[] = "BAD_PAGE_TOKEN";       // of no list, or of another one

// --- FAILED_PRECONDITION.
inline constexpr char kClusterFull[] = "CLUSTER_FULL";      // no ordinal is free
inline constexpr char kAddressInUse[] = "ADDRESS_IN_USE";   // by a living shard
inline constexpr char kWeightChanged[] = "WEIGHT_CHANGED";  // rows would have to move
inline constexpr char kShardsChanged[] = "SHARDS_CHANGED";  // rows would have to move
inline constexpr char kAssetsDiffer[] = "ASSETS_DIFFER";    // the model was trained with others

// --- NOT_FOUND.
inline constexpr char kUnknownShard[] = "UNKNOWN_SHARD";  // register again
inline constexpr char kJobRuns[] = "JOB_RUNS";            // cancel it first
inline constexpr char kUnknownJob[] = "UNKNOWN_JOB";      // register it again
inline constexpr char kUnknownOperation[] =
    "UNKNOWN_OPERATION";                                    // of before a restart, or long over
inline constexpr char kUnknownAssets[] = "UNKNOWN_ASSETS";  // gone, or not sent yet

// --- UNAVAILABLE.
inline constexpr char kNotAllShards[] = "NOT_ALL_SHARDS";  // the cluster is still forming

// --- RESOURCE_EXHAUSTED.
inline constexpr char kTooManyLeases[] = "TOO_MANY_LEASES";
inline constexpr char kTooManyJobs[] = "TOO_MANY_JOBS";
inline constexpr char kTooManyOperations[] = "TOO_MANY_OPERATIONS";

}  // namespace dslide::reason
