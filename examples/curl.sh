#!/bin/sh
# A whole answer, then the same one as a stream: sh curl.sh MODEL   (`maxi-mlx list` has the names)
set -eu
url="http://127.0.0.1:11434/v1/chat/completions"
model="${1:?usage: sh curl.sh MODEL}"
messages='[{"role": "user", "content": "Hello!"}]'

curl -sS --fail-with-body "$url" -d "{\"model\": \"$model\", \"messages\": $messages}"
echo
curl -sSN --fail-with-body "$url" \
  -d "{\"model\": \"$model\", \"messages\": $messages, \"stream\": true}"
