package dev.dslide;

import dev.dslide.errors.Failure;
import dev.dslide.v1.CoordinatorServiceGrpc;
import dev.dslide.v1.GetClusterMapRequest;
import dev.dslide.v1.GetClusterMapResponse;
import dev.dslide.v1.ModelSpec;
import dev.dslide.v1.SlotAssignment;
import dev.dslide.v1.TableSpec;
import io.grpc.Status;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Who owns the slots, as it was when the client was made. Threads may share it. */
final class Owners {
  private final Peer coordinator;
  private final long topology;
  private final int shards;
  private final Map<Long, short[]> bySlots = new ConcurrentHashMap<>();

  Owners(Peer coordinator, GetClusterMapResponse members) {
    this.coordinator = coordinator;
    topology = members.getTopologyVersion();
    shards = members.getShardsCount();
    members.getSlotsList().forEach(this::keep);
  }

  long topology() {
    return topology;
  }

  private void keep(SlotAssignment slots) {
    short[] owners = new short[slots.getOwners().size() / 2];
    Numbers.view(slots.getOwners()).asShortBuffer().get(owners);
    boolean fits = owners.length > 0 && slots.getOwners().size() == 2 * slots.getNumSlots();
    for (short owner : owners) {
      fits &= owner >= 0 && owner < shards;
    }
    if (!fits) {
      throw Failures.internal("%s answered %d bytes of owners of %d slots that are not those of %d shards",
          coordinator.name(), slots.getOwners().size(), slots.getNumSlots(), shards);
    }
    bySlots.put(slots.getNumSlots(), owners);
  }

  /** Asks who owns the slots of a model's tables, as far as that is not known. */
  void learn(ModelSpec spec) {
    List<Long> unknown = spec.getTablesList().stream().map(TableSpec::getNumSlots).distinct()
        .filter(slots -> !bySlots.containsKey(slots)).toList();
    if (unknown.isEmpty()) {
      return;
    }
    GetClusterMapResponse now = coordinator.call(CoordinatorServiceGrpc.getGetClusterMapMethod(),
        GetClusterMapRequest.newBuilder().addAllNumSlots(unknown).build());
    if (now.getTopologyVersion() != topology) {
      throw Failure.of(Status.Code.FAILED_PRECONDITION, "the cluster's shards changed since this client was made: "
          + "connect again").withReason("STALE_TOPOLOGY").exception();
    }
    now.getSlotsList().forEach(this::keep);
    for (long slots : unknown) {
      if (!bySlots.containsKey(slots)) {
        throw Failures.internal("%s did not answer who owns %d slots", coordinator.name(), slots);
      }
    }
  }

  /** The shard of each slot of a table of a model that was opened. */
  short[] of(TableSpec table) {
    return bySlots.get(table.getNumSlots());
  }
}
