"""A minimal project of Django, for WSGI and for ASGI."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from django.urls import path

settings.configure(ROOT_URLCONF=__name__, SECRET_KEY="x", ALLOWED_HOSTS=["*"], DEBUG=False, LOGGING_CONFIG=None)
counter = 0


def count(request: HttpRequest) -> Any:
    global counter
    counter += 1
    return JsonResponse({"count": counter, "path": request.path, "a": request.POST.get("a")})


def stream(request: HttpRequest) -> Any:
    return StreamingHttpResponse(str(number) for number in range(5))


urlpatterns = [path("caf\u00e9/count", count), path("stream", stream)]
application = get_wsgi_application()
asgi_application = get_asgi_application()
