/**
 * The client of a dslide cluster, whose servers hold the wide layers of networks: it reads, changes and
 * ranks their rows, trains beside clients in other languages, and asks {@code dslide serve} for
 * predictions.
 *
 * <pre>{@code
 * try (var cluster = Cluster.connect("127.0.0.1:7000")) {
 *   var model = cluster.model("my-model");
 *   var rows = model.gather("labels", new int[] {17, 4});
 *   var best = model.topK("labels", rows.values(), TopKOptions.exact(5));
 * }
 * }</pre>
 *
 * <p>Matrices are row-major: [rows, cols]. Ids are unsigned 32-bit numbers in an int; rows are below
 * 2^31. Numbers of 64 bits without a sign, such as seeds, are longs with the same bits.
 *
 * <p>Threads may share a {@link dev.dslide.Cluster}, its {@link dev.dslide.Model models} and a
 * {@link dev.dslide.Predictor}; {@link dev.dslide.Steps} and {@link dev.dslide.Leases} belong to one
 * thread at a time. Every operation blocks and ends within {@link dev.dslide.Options#timeout}, with the
 * deadline or the cancellation of the caller's {@link io.grpc.Context}, or when its thread is
 * interrupted. What goes wrong is a {@link dev.dslide.errors.DslideException}.
 */
package dev.dslide;
