// Changes blobs with Microsoft's client in the container that a line of JSON on stdin names:
// {"url": of the account, "account", "key", "container"}. Prints what it did, one a line.
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { BlobServiceClient, StorageSharedKeyCredential } from "@azure/storage-blob";

const { url, account, key, container } = JSON.parse(await text(process.stdin));
const service = new BlobServiceClient(url, new StorageSharedKeyCredential(account, key));
const blobs = service.getContainerClient(container);
const did = (api, blob, size, etag = "") => console.log(JSON.stringify([api, blob, size, etag]));

const one = blobs.getBlockBlobClient("js/grüße 1+2.txt");
did("PutBlob", one.name, 5, (await one.upload("hello", 5)).etag);
const blocks = blobs.getBlockBlobClient("js/blocks");
const parts = Readable.from([1, 2, 3].map(() => Buffer.alloc(100_000)));
did("PutBlockList", blocks.name, 300_000, (await blocks.uploadStream(parts, 64_000, 2)).etag);
const copy = blobs.getBlockBlobClient("js/copy");
const done = await (await copy.beginCopyFromURL(one.url)).pollUntilDone();
did("CopyBlob", copy.name, 5, done.etag);
await blocks.delete();
did("DeleteBlob", blocks.name, 300_000);
await service.getBlobBatchClient().deleteBlobs([one, copy]);
did("DeleteBlob", one.name, 5);
did("DeleteBlob", copy.name, 5);
