# syntax=docker/dockerfile:1
# The app on Microsoft's Functions host, with the files that a deployment uploads (.funcignore).
FROM mcr.microsoft.com/azure-functions/python:4-python3.13
ENV AzureWebJobsScriptRoot=/home/site/wwwroot \
    AzureFunctionsJobHost__Logging__Console__IsEnabled=true \
    ASPNETCORE_URLS=http://+:8080 \
    FUNCTIONS_ENABLE_DRAIN_ON_APP_STOPPING=true \
    FUNCTIONS_REQUEST_BODY_SIZE_LIMIT=4194304
COPY requirements.txt /home/site/wwwroot/
RUN pip install --no-cache-dir --require-hashes --requirement /home/site/wwwroot/requirements.txt
COPY . /home/site/wwwroot/
# The host writes to these folders. Nobody but root can write to the app's.
RUN mkdir -p /azure-functions-host/Secrets /home/ASP.NET /home/LogFiles /home/data \
 && chown -R 1654:1654 /azure-functions-host/Secrets /home/ASP.NET /home/LogFiles /home/data \
 && chown 1654:1654 /home
USER 1654
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=10s --start-period=90s \
  CMD ["python3", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/status/health')"]
