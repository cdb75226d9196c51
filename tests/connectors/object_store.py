"""An object store that checks signatures, with faults on demand.

With two arguments, files with a certificate and its key, it speaks TLS. Prints a line of JSON: the port, and the keys of a user who may use the bucket `backups`. It ends when its input does.
GET /fault?MODE&N makes every Nth request go wrong: `busy` answers 503, `error` 500, `break` closes the connection in the middle of the
answer, `cut` keeps the last byte of what is uploaded to itself; `none` makes none.
"""

import io
import json
import logging
import sys
import threading

import boto3
from moto import settings
from moto.core.authorization import ActionAuthenticatorMixin
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

logging.getLogger("werkzeug").setLevel(logging.ERROR)


class Faulty:
    def __init__(self, inner):
        self.inner, self.mode, self.every, self.count = inner, "none", 1, 0
        self.lock = threading.Lock()

    def __call__(self, environ, start):
        if environ["PATH_INFO"] == "/fault":
            mode, every = environ["QUERY_STRING"].split("&")
            with self.lock:
                self.mode, self.every, self.count = mode, int(every), 0
            start("200 OK", [("Content-Length", "0")])
            return []
        with self.lock:
            mode = self.mode
            uploads = environ["REQUEST_METHOD"] == "PUT" and int(environ.get("CONTENT_LENGTH") or 0) > 1
            if mode != "cut" or uploads:
                self.count += 1
            is_due = mode != "none" and self.count % self.every == 0 and (mode != "cut" or uploads)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if is_due and mode in ("busy", "error"):
            start("503 Slow Down" if mode == "busy" else "500 Internal Error", [("Content-Length", "0")])
            return []
        if is_due and mode == "cut":
            body = body[:-1]
            environ["CONTENT_LENGTH"] = str(len(body))
            for name in ("HTTP_CONTENT_LENGTH", "HTTP_X_AMZ_DECODED_CONTENT_LENGTH"):
                environ.pop(name, None)
        environ["wsgi.input"] = io.BytesIO(body)
        answer = self.inner(environ, start)
        if is_due and mode == "break":
            raise ConnectionAbortedError("as asked")
        return answer


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_):
        pass

    def connection_dropped(self, error, environ=None):
        self.close_connection = True


application = Faulty(DomainDispatcherApplication(create_backend_app))
tls = tuple(sys.argv[1:]) or None
server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Handler, ssl_context=tls)
threading.Thread(target=server.serve_forever, daemon=True).start()
settings.INITIAL_NO_AUTH_ACTION_COUNT = 1_000_000
made = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
address = f"http{'s' if tls else ''}://127.0.0.1:{server.port}"
if tls:
    made["verify"] = tls[0]
boto3.client("s3", endpoint_url=address, **made).create_bucket(Bucket="backups")
iam = boto3.client("iam", endpoint_url=address, **made)
iam.create_user(UserName="nines")
allowed = [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]
policy = json.dumps({"Version": "2012-10-17", "Statement": allowed})
iam.put_user_policy(UserName="nines", PolicyName="all", PolicyDocument=policy)
keys = iam.create_access_key(UserName="nines")["AccessKey"]
# From now on each request is signed by that user.
settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
assert ActionAuthenticatorMixin.request_count >= 0
print(json.dumps({"port": server.port, "access": keys["AccessKeyId"], "secret": keys["SecretAccessKey"]}), flush=True)
sys.stdin.read()
