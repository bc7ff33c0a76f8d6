#!/bin/sh
# Fetches a Kafka server and the connector of Spark from Maven Central into build/kafka, for test_pipeline_kafka.py.
# Needs Maven (mvn) and 120 MB. Not part of `make test`: without these the test is skipped.
set -eu
cd "$(dirname "$0")/../.."
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

fetch build/kafka/server "org.apache.kafka:kafka_2.13:$KAFKA" org.slf4j:slf4j-nop:2.0.17
fetch build/kafka/connector "org.apache.spark:spark-sql-kafka-0-10_2.13:$SPARK"
# Spark brings these itself.
rm -f build/kafka/connector/hadoop-client-*.jar build/kafka/connector/scala-library-*.jar build/kafka/connector/slf4j-api-*.jar
