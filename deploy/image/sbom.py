"""Writes the bill of materials of a root file system that rootfs.py made, as SPDX 2.3 in JSON.

usage: sbom.py --root DIR --version V --revision R --output FILE
               [--compiled-in PACKAGE...] [--components DIR] [--created TIME]

It lists dslide with its programs and their checksums, the Debian packages in
DIR/var/lib/dpkg/status.d, installed packages of headers that are compiled in (--compiled-in), and
what was compiled from source: files of --components with lines of a name and a version. The time is
--created, else SOURCE_DATE_EPOCH, else now; with a given time equal inputs make equal bytes.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

NAME = "dslide"
UNKNOWN = "NOASSERTION"


def fields(stanza):
    """The fields of a dpkg record; continuation lines are left out."""
    found = {}
    for line in stanza.splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith((" ", "\t")):
            found[name] = value.strip()
    return found


def identifier(*parts):
    """An SPDX id: letters, digits, dots and dashes."""
    return "SPDXRef-" + "-".join(re.sub(r"[^A-Za-z0-9.-]", "-", part) for part in parts)


def debian_package(record, release):
    """The SPDX package of a dpkg record."""
    name, version, architecture = record["Package"], record["Version"], record["Architecture"]
    locator = (f"pkg:deb/debian/{urllib.parse.quote(name)}@{urllib.parse.quote(version, safe='')}"
               f"?arch={architecture}&distro=debian-{release}")
    source = record.get("Source", name)
    return {
        "SPDXID": identifier("Package", "deb", name),
        "name": name,
        "versionInfo": version,
        "supplier": "Organization: Debian",
        "originator": f"Organization: {record.get('Maintainer', 'Debian')}",
        "downloadLocation": UNKNOWN,
        "homepage": record.get("Homepage", "https://www.debian.org/"),
        "filesAnalyzed": False,
        "sourceInfo": f"built from the Debian source package {source}",
        "licenseConcluded": UNKNOWN,
        "licenseDeclared": UNKNOWN,
        "licenseComments": f"/usr/share/doc/{name}/copyright",
        "copyrightText": UNKNOWN,
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": locator}],
    }


def component_package(name, version):
    """The SPDX package of what was compiled from a source of its own."""
    return {
        "SPDXID": identifier("Package", "source", name),
        "name": name,
        "versionInfo": version,
        "supplier": UNKNOWN,
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": UNKNOWN,
        "licenseDeclared": UNKNOWN,
        "copyrightText": UNKNOWN,
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": f"pkg:generic/{name}@{version}"}],
    }


def program_file(path):
    data = path.read_bytes()
    return {
        "SPDXID": identifier("File", path.name),
        "fileName": f"./usr/bin/{path.name}",
        "fileTypes": ["BINARY"],
        "checksums": [
            {"algorithm": "SHA1", "checksumValue": hashlib.sha1(data).hexdigest()},
            {"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()},
        ],
        "licenseConcluded": "Apache-2.0",
        "licenseInfoInFiles": [UNKNOWN],
        "copyrightText": UNKNOWN,
    }


def own_package(version, revision, programs):
    """The SPDX package of dslide itself; the verification code is the one that SPDX defines."""
    sums = sorted(program["checksums"][0]["checksumValue"] for program in programs)
    code = hashlib.sha1("".join(sums).encode()).hexdigest()
    return {
        "SPDXID": identifier("Package", NAME),
        "name": NAME,
        "versionInfo": version,
        "supplier": UNKNOWN,
        "downloadLocation": UNKNOWN,
        "sourceInfo": f"revision {revision}",
        "filesAnalyzed": True,
        "packageVerificationCode": {"packageVerificationCodeValue": code},
        "hasFiles": [program["SPDXID"] for program in programs],
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "licenseInfoFromFiles": [UNKNOWN],
        "copyrightText": UNKNOWN,
        "primaryPackagePurpose": "APPLICATION",
    }


def document(own, programs, loaded, compiled_in, created):
    """The whole document. `loaded` and `compiled_in` are SPDX packages."""
    def relation(one, kind, other):
        return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}

    relations = [relation("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])]
    relations += [relation(own["SPDXID"], "CONTAINS", program["SPDXID"]) for program in programs]
    relations += [relation(own["SPDXID"], "DYNAMIC_LINK", package["SPDXID"]) for package in loaded]
    relations += [relation(own["SPDXID"], "STATIC_LINK", package["SPDXID"])
                  for package in compiled_in]
    content = {"packages": [own, *loaded, *compiled_in], "files": programs,
               "relationships": relations}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{NAME}-{own['versionInfo']}",
        # Names the document, leads nowhere: equal contents, equal name.
        "documentNamespace": f"urn:dslide:spdx:{digest}",
        "creationInfo": {"created": created, "creators": ["Tool: dslide-deploy-image-sbom"]},
        **content,
    }


def creation_time(given):
    if not given and os.environ.get("SOURCE_DATE_EPOCH"):
        given = datetime.datetime.fromtimestamp(
            int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc).isoformat()
    moment = (datetime.datetime.fromisoformat(given.replace("Z", "+00:00")) if given
              else datetime.datetime.now(datetime.timezone.utc))
    return moment.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def installed(package):
    """The record of an installed package, of the first architecture that has it."""
    shown = subprocess.run(["dpkg-query", "--status", package], capture_output=True, text=True)
    if shown.returncode != 0:
        sys.exit(f"sbom: --compiled-in {package}: it is not installed here")
    return fields(shown.stdout.split("\n\n")[0])


def components(directory):
    """Names and versions of a folder's files; an absent folder has none."""
    lines = [line.split() for path in sorted(directory.glob("*"))
             for line in path.read_text(encoding="ascii").splitlines()] if directory else []
    return [component_package(name, version) for name, version in lines]


def describe(options):
    root = options.root
    release = fields((root / "etc/os-release").read_text().replace("=", ":"))
    release = release["VERSION_ID"].strip('"')
    records = [fields(path.read_text(encoding="utf-8"))
               for path in sorted((root / "var/lib/dpkg/status.d").iterdir())]
    programs = [program_file(path) for path in sorted((root / "usr/bin").glob(f"{NAME}*"))]
    if not programs:
        sys.exit(f"sbom: no program {NAME}* in {root / 'usr/bin'}")
    own = own_package(options.version, options.revision, programs)
    built_in = [debian_package(installed(name), release) for name in options.compiled_in]
    return document(own, programs, [debian_package(record, release) for record in records],
                    built_in + components(options.components), creation_time(options.created))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--revision", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--compiled-in", nargs="*", default=[])
    parser.add_argument("--components", type=pathlib.Path)
    parser.add_argument("--created", help="ISO 8601, for example 2026-01-31T00:00:00Z")
    options = parser.parse_args()
    made = describe(options)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    print(f"sbom: {len(made['packages'])} packages, {len(made['files'])} programs")


if __name__ == "__main__":
    main()
