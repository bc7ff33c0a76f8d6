#!/bin/sh
# Fetches a Kafka server and the connector of Spark from Maven Central into build/kafka, for test_pipeline_kafka.py.
# Every file must have the checksum that kafka.sha256 gives it. After another version is set here:
# `tests/services/kafka.sh --renew` writes the checksums again; look at what changed before it is committed.
# Needs Maven (mvn, install.sh brings it) and 60 MB.
set -eu
cd "$(dirname "$0")/../.."
CHECKSUMS=$PWD/tests/services/kafka.sha256
SPARK=4.2.0
KAFKA=4.1.0

fetch() { # fetch FOLDER GROUP:ARTIFACT:VERSION...
    folder=$1
    shift
    mkdir -p "$folder"
    {
        echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        echo '<groupId>twigcast</groupId><artifactId>fetch</artifactId><version>1</version><dependencies>'
        for name; do
            echo "$name" | sed 's|\(.*\):\(.*\):\(.*\)|<dependency><groupId>\1</groupId><artifactId>\2</artifactId><version>\3</version></dependency>|'
        done
        echo '</dependencies></project>'
    } >"$folder/pom.xml"
    mvn -q -B -f "$folder/pom.xml" dependency:copy-dependencies -DoutputDirectory=. -DincludeScope=runtime
}

checked() {
    [ -d build/kafka ] && (cd build/kafka && sha256sum --check --quiet --strict "$CHECKSUMS")
}

if [ "${1:-}" != --renew ] && checked 2>/dev/null; then exit 0; fi
rm -rf build/kafka
fetch build/kafka/server "org.apache.kafka:kafka_2.13:$KAFKA" org.slf4j:slf4j-nop:2.0.17
fetch build/kafka/connector "org.apache.spark:spark-sql-kafka-0-10_2.13:$SPARK"
# Spark brings these itself.
rm -f build/kafka/connector/hadoop-client-*.jar build/kafka/connector/scala-library-*.jar build/kafka/connector/slf4j-api-*.jar

list() { (cd build/kafka && find . -name '*.jar' | LC_ALL=C sort | sed 's|^\./||'); }
if [ "${1:-}" = --renew ]; then
    list | (cd build/kafka && xargs sha256sum) >"$CHECKSUMS"
elif ! { checked && [ "$(list)" = "$(sed 's/^[0-9a-f]*  //' "$CHECKSUMS")" ]; }; then
    rm -rf build/kafka
    echo 'kafka.sh: the files fetched are not those of tests/services/kafka.sha256: nothing was kept' >&2
    exit 1
fi
