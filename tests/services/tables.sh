#!/bin/sh
# Fetches what tests/spark/sinks/test_tables.py needs into build/tables: Delta for the Spark of the lock file, Iceberg,
# and the newest Spark that Iceberg is published for. Every file must have the checksum that tables.sha256 and
# spark-4.1.txt give it. After another version is set here: `tests/services/tables.sh --renew` writes tables.sha256
# again; look at what changed before it is committed.
# Needs Maven (mvn, install.sh brings it), pip and 600 MB.
set -eu
cd "$(dirname "$0")/../.."
CHECKSUMS=$PWD/tests/services/tables.sha256
PACKAGES=$PWD/tests/services/spark-4.1.txt
PYTHON=${PYTHON:-.venv/bin/python}
DELTA=4.4.0
UNITY=0.6.0
ICEBERG=1.12.0

checked() {
    [ -d build/tables ] && (cd build/tables && sha256sum --check --quiet --strict "$CHECKSUMS") &&
        cmp -s "$PACKAGES" build/tables/spark-4.1/packages.txt
}

if [ "${1:-}" != --renew ] && checked 2>/dev/null; then exit 0; fi
rm -rf build/tables
mkdir -p build/tables/delta build/tables/iceberg
get() { # get FOLDER GROUP:ARTIFACT:VERSION...
    folder=$1
    shift
    {
        echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        echo '<groupId>twigcast</groupId><artifactId>fetch</artifactId><version>1</version><dependencies>'
        for name; do
            # Without what they need: Spark brings it.
            echo "$name" | sed 's|\(.*\):\(.*\):\(.*\)|<dependency><groupId>\1</groupId><artifactId>\2</artifactId><version>\3</version><exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>|'
        done
        echo '</dependencies></project>'
    } >"$folder/pom.xml"
    mvn -q -B -f "$folder/pom.xml" dependency:copy-dependencies -DoutputDirectory=. -DincludeScope=runtime
}
get build/tables/delta "io.delta:delta-spark_4.2_2.13:$DELTA" "io.delta:delta-storage:$DELTA" \
    "io.delta:delta-kernel-api:$DELTA" "io.delta:delta-kernel-defaults:$DELTA" \
    "io.delta:delta-kernel-unitycatalog:$DELTA" "io.unitycatalog:unitycatalog-client:$UNITY"
get build/tables/iceberg "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:$ICEBERG"
"$PYTHON" -m pip install --quiet --no-deps --require-hashes --target build/tables/spark-4.1 -r "$PACKAGES"
cp "$PACKAGES" build/tables/spark-4.1/packages.txt

list() { (cd build/tables && find . -path ./spark-4.1 -prune -o -name '*.jar' -print | LC_ALL=C sort | sed 's|^\./||'); }
if [ "${1:-}" = --renew ]; then
    list | (cd build/tables && xargs sha256sum) >"$CHECKSUMS"
elif ! { checked && [ "$(list)" = "$(sed 's/^[0-9a-f]*  //' "$CHECKSUMS")" ]; }; then
    rm -rf build/tables
    echo 'tables.sh: the files fetched are not those of tests/services/tables.sha256: nothing was kept' >&2
    exit 1
fi
