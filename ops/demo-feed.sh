#!/bin/sh
# Subscribes to a few things and publishes the messages of a folder, over and over: demo-feed.sh FOLDER [ROUNDS]
# TWIGCAST_URL says where the broker is, TOKEN_FILE has an admin token, PAUSE_SECONDS is between two messages.
set -eu
folder=$1
rounds=${2:-0}

until [ -s "$TOKEN_FILE" ]; do sleep 1; done
TWIGCAST_TOKEN=$(cat "$TOKEN_FILE")
export TWIGCAST_TOKEN

subscribe() {
    # It is there already after the container was started again.
    twigcast subscribe "$@" --replace
}
subscribe floods "//*:alert[*:info/*:event = 'Flood']" --subscriber river-watch
subscribe severe "//*:alert[*:info/*:severity = ('Severe', 'Extreme')]" --subscriber duty-officer
subscribe headlines 'for $i in //*:info return <item>{ $i/*:headline/text() }</item>' --subscriber web-site

round=0
while [ "$rounds" -eq 0 ] || [ "$round" -lt "$rounds" ]; do
    for message in "$folder"/*.xml; do
        # An id of its own each time, since a broker takes a message once under an id.
        twigcast publish --id "$(basename "$message" .xml)-$(date +%s)-$round" "$message"
        sleep "${PAUSE_SECONDS:-2}"
    done
    round=$((round + 1))
done
