package dev.dslide;

import java.nio.file.Path;

/**
 * The files (PEM) of encrypted connections.
 *
 * @param ca authorities of the servers; null: those of the system
 * @param cert this client's own certificate, for clusters that ask for one; null: none
 * @param key its key, PKCS #8; null: none
 */
public record Tls(Path ca, Path cert, Path key) {}
