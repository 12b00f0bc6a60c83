// What the databases of a shard have in common. Internal to the shard's storage.

#pragma once

#include <rocksdb/options.h>

namespace dslide::shard {

// Paranoid, uncompressed, never compacted by itself; read and written in order, so without a cache.
// RocksDB's warnings and errors go to this process's log, as details: what they mean for the user
// is in the status of the call that met them, and many are about files that are only looked for.
// Not to RocksDB's own file beside the data: an image's files are listed and counted, and on a full
// disk its debug build aborts for that file.
rocksdb::Options StorageOptions();

}  // namespace dslide::shard
