// The reason words of the data plane: what programs compare instead of message texts.
//
// docs/understand/wire.md lists, for each word, the status code it comes with, whether the
// request's sequence is used up, and what the caller should do.

#pragma once

namespace dslide::reason {

// --- INVALID_ARGUMENT: the request itself is wrong.
inline constexpr char kBadName[] = "BAD_NAME";              // not [a-z0-9-]{1,64}
inline constexpr char kBadClientId[] = "BAD_CLIENT_ID";     // not 16 bytes
inline constexpr char kBadSequence[] = "BAD_SEQUENCE";      // not 1 <= first_incomplete <= sequence
inline constexpr char kBadStep[] = "BAD_STEP";              // not 0 <= first_open_step <= step
inline constexpr char kBadEnum[] = "BAD_ENUM";              // unspecified or unknown; a word, too
inline constexpr char kBadSize[] = "BAD_SIZE";              // bytes and counts do not agree
inline constexpr char kOverLimit[] = "OVER_LIMIT";          // more than a message may hold
inline constexpr char kBadMessage[] = "BAD_MESSAGE";        // its bytes are no message
inline constexpr char kBadOffsets[] = "BAD_OFFSETS";        // not ascending from 0 to the count
inline constexpr char kNotAscending[] = "NOT_ASCENDING";    // ids unsorted or twice
inline constexpr char kBadRowId[] = "BAD_ROW_ID";           // beyond any table
inline constexpr char kNotFinite[] = "NOT_FINITE";          // NaN, infinity
inline constexpr char kOverMagnitude[] = "OVER_MAGNITUDE";  // beyond the model's bound
inline constexpr char kOutOfRange[] = "OUT_OF_RANGE";       // a number outside its documented range
inline constexpr char kMissingField[] = "MISSING_FIELD";    // a part that must be there
inline constexpr char kUnknownTable[] = "UNKNOWN_TABLE";    // the model has no such table
inline constexpr char kWrongRole[] = "WRONG_ROLE";          // the table cannot do this
inline constexpr char kWrongDim[] = "WRONG_DIM";            // width of the rows differs
inline constexpr char kWrongBatch[] = "WRONG_BATCH";        // differs from the step's forward
inline constexpr char kForeignRow[] = "FOREIGN_ROW";        // held by another shard
inline constexpr char kWrongRows[] = "WRONG_ROWS";          // not the rows of the dense table
inline constexpr char kWrongBiases[] = "WRONG_BIASES";      // missing, or the table has none
inline constexpr char kBadFingerprint[] = "BAD_FINGERPRINT";  // count or value does not fit
inline constexpr char kNoContext[] = "NO_CONTEXT";            // backward without its forward
inline constexpr char kStepClosed[] = "STEP_CLOSED";          // below an earlier first_open_step
inline constexpr char kStaleSequence[] = "STALE_SEQUENCE";    // answered and forgotten long ago
inline constexpr char kIncomplete[] = "INCOMPLETE";           // a stream ended too early
inline constexpr char kBadModel[] = "BAD_MODEL";              // the specification is not valid
inline constexpr char kWrongShard[] = "WRONG_SHARD";          // meant for another shard
inline constexpr char kWrongInput[] = "WRONG_INPUT";          // the model takes no such query

// --- FAILED_PRECONDITION: refresh the cluster map, the model or the client's state.
inline constexpr char kStaleGeneration[] = "STALE_GENERATION";
inline constexpr char kStaleTopology[] = "STALE_TOPOLOGY";
inline constexpr char kFenced[] = "FENCED";                 // a newer process owns the shard
inline constexpr char kUnknownClient[] = "UNKNOWN_CLIENT";  // say Hello first
inline constexpr char kClosedClient[] = "CLOSED_CLIENT";    // said CloseClient, or was given up
inline constexpr char kQuarantined[] = "QUARANTINED";       // too many bad requests
inline constexpr char kSequenceGap[] = "SEQUENCE_GAP";      // an earlier one is missing here
inline constexpr char kModelDiffers[] = "MODEL_DIFFERS";
inline constexpr char kDataDiffers[] = "DATA_DIFFERS";  // of a server of data: not what it had
inline constexpr char kNoDataDir[] = "NO_DATA_DIR";
inline constexpr char kNotFrozen[] = "NOT_FROZEN";  // no cut of that epoch is being made
inline constexpr char kCheckpointRunning[] = "CHECKPOINT_RUNNING";  // another one is being written
inline constexpr char kSlotsDiffer[] = "SLOTS_DIFFER";  // a checkpoint of another slot map

// --- PERMISSION_DENIED: somebody else's.
inline constexpr char kForeignClient[] = "FOREIGN_CLIENT";  // the id of another certificate

// --- NOT_FOUND: create it first.
inline constexpr char kUnknownModel[] = "UNKNOWN_MODEL";
inline constexpr char kUnknownCheckpoint[] = "UNKNOWN_CHECKPOINT";
inline constexpr char kUnknownDataset[] = "UNKNOWN_DATASET";

// --- RESOURCE_EXHAUSTED: slow down; the answer says for how long.
inline constexpr char kQueueFull[] = "QUEUE_FULL";
inline constexpr char kBulkFull[] = "BULK_FULL";  // gathers and scatters in memory
inline constexpr char kContextsFull[] = "CONTEXTS_FULL";
inline constexpr char kRepliesFull[] = "REPLIES_FULL";
inline constexpr char kWindowFull[] = "WINDOW_FULL";  // first_incomplete is too far behind
inline constexpr char kTooManyClients[] = "TOO_MANY_CLIENTS";
inline constexpr char kOutOfMemory[] = "OUT_OF_MEMORY";
inline constexpr char kDiskFull[] = "DISK_FULL";  // of the command log
inline constexpr char kTooLarge[] = "TOO_LARGE";  // the answer would not fit into a message

// --- UNAVAILABLE: the same request again, later.
inline constexpr char kShuttingDown[] = "SHUTTING_DOWN";
inline constexpr char kLogFailed[] = "LOG_FAILED";              // the outcome is unknown
inline constexpr char kNotOwnedYet[] = "NOT_OWNED_YET";         // restarted, and not registered yet
inline constexpr char kAwaitingRestore[] = "AWAITING_RESTORE";  // its rows are to come back

}  // namespace dslide::reason
